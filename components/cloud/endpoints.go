package cloud

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
)

// interfaces of each service's endpoints.
var interfaces = []gophercloud.Availability{gophercloud.AvailabilityPublic, gophercloud.AvailabilityInternal, gophercloud.AvailabilityAdmin}

// mark is the description of the endpoints that regiond manages for an OpenStack cluster. Endpoints
// without it are left alone, however similar they are.
func (c Catalogue) mark() string { return "kept by regiond, cluster " + c.Owner }

// Endpoint is a stale endpoint of a service.
type Endpoint struct {
	ID, Service, Interface, Region, URL string
}

func (e Endpoint) String() string {
	return fmt.Sprintf("of %s, %s in %s: %s", e.Service, e.Interface, e.Region, e.URL)
}

// Stale lists the endpoints that regiond has created for a cluster and that are no longer declared:
// those of another region, or of a service that is gone. It changes nothing.
func (s *Session) Stale(ctx context.Context, c Catalogue) ([]Endpoint, error) {
	all, known, err := s.catalogued(ctx)
	if err != nil {
		return nil, fmt.Errorf("keystone %s: %w", s.url, err)
	}
	return stale(c, all, known), nil
}

// Prune removes the endpoints that Stale lists, and returns descriptions of its changes. It is
// idempotent.
func (s *Session) Prune(ctx context.Context, c Catalogue) (removed []string, err error) {
	old, err := s.Stale(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, e := range old {
		err := endpoints.Delete(ctx, s.identity(), e.ID).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return removed, fmt.Errorf("keystone %s: delete endpoint %s: %w", s.url, e, err)
		}
		removed = append(removed, fmt.Sprintf("endpoint %s deleted because it is no longer declared", e))
	}
	return removed, nil
}

func (s *Session) catalogued(ctx context.Context) ([]services.Service, []endpoints.Endpoint, error) {
	all, err := list(ctx, services.List(s.identity(), nil), services.ExtractServices)
	if err != nil {
		return nil, nil, fmt.Errorf("list services: %w", err)
	}
	known, err := list(ctx, endpoints.List(s.identity(), nil), endpoints.ExtractEndpoints)
	if err != nil {
		return nil, nil, fmt.Errorf("list endpoints: %w", err)
	}
	return all, known, nil
}

func stale(c Catalogue, all []services.Service, known []endpoints.Endpoint) []Endpoint {
	var old []Endpoint
	for _, k := range known {
		if c.Owner == "" || k.Description != c.mark() {
			continue
		}
		kind := ""
		if i := slices.IndexFunc(all, func(s services.Service) bool { return s.ID == k.ServiceID }); i >= 0 {
			kind = all[i].Type
		}
		declared := slices.ContainsFunc(c.Services, func(s Service) bool { return s.Type == kind })
		if !declared || !inRegion(k, c.Region) || !slices.Contains(interfaces, k.Availability) {
			old = append(old, Endpoint{ID: k.ID, Service: kind, Interface: string(k.Availability), Region: k.RegionID, URL: k.URL})
		}
	}
	return old
}

func inRegion(k endpoints.Endpoint, region string) bool {
	return k.RegionID == region || k.Region == region
}

func (e *ensurer) services(ctx context.Context, c Catalogue) error {
	all, known, err := e.session.catalogued(ctx)
	if err != nil {
		return err
	}
	for _, want := range c.Services {
		same := filter(all, func(s services.Service) bool { return s.Type == want.Type })
		have, err := atMostOne("service", "of type "+want.Type, same, func(s services.Service) string { return s.ID })
		if err != nil {
			return err
		}
		if have == nil {
			if have, err = services.Create(ctx, e.identity, services.CreateOpts{Name: want.Name, Type: want.Type}).Extract(); err != nil {
				return fmt.Errorf("create service %s: %w", want.Type, err)
			}
			e.did("service %s created", want.Type)
		}
		for _, i := range interfaces {
			if err := e.endpoint(ctx, c, want, have.ID, i, known); err != nil {
				return err
			}
		}
	}
	return nil
}

// endpoint ensures one endpoint. An existing one, created by keystone-manage bootstrap or by an
// earlier regiond, gets the mark.
func (e *ensurer) endpoint(ctx context.Context, c Catalogue, want Service, service string, i gophercloud.Availability,
	known []endpoints.Endpoint) error {
	same := filter(known, func(k endpoints.Endpoint) bool {
		return k.ServiceID == service && k.Availability == i && inRegion(k, c.Region)
	})
	name := fmt.Sprintf("of %s, %s in %s", want.Type, i, c.Region)
	have, err := atMostOne("endpoint", name, same, func(k endpoints.Endpoint) string { return k.ID })
	if err != nil {
		return err
	}
	switch {
	case have == nil:
		// By 'region', not 'region_id': only for the former does Keystone create a missing region.
		err := endpoints.Create(ctx, e.identity, endpoints.CreateOpts{Availability: i, Region: c.Region, URL: want.URL, ServiceID: service,
			Description: c.mark()}).Err
		if err != nil {
			return fmt.Errorf("create endpoint %s: %w", name, err)
		}
		e.did("endpoint %s created: %s", name, want.URL)
	case have.URL != want.URL || have.Description != c.mark():
		if _, err := endpoints.Update(ctx, e.identity, have.ID, endpoints.UpdateOpts{URL: want.URL, Description: c.mark()}).Extract(); err != nil {
			return fmt.Errorf("update endpoint %s: %w", name, err)
		}
		if have.URL != want.URL {
			e.did("endpoint %s changed from %s to %s", name, have.URL, want.URL)
		} else {
			e.did("endpoint %s marked as managed by regiond", name)
		}
	}
	return nil
}
