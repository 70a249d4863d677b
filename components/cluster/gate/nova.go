package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/service"
)

// nova with services that are named by their UUIDs (2.53).
func (t Target) nova(s *cloud.Session) *gophercloud.ServiceClient {
	c := s.Service("compute", t.Nova)
	c.Microversion = "2.53"
	return c
}

// Nova checks that its cells are mapped, that conductor and scheduler reported within their time, and that the API answers
// from its database.
func Nova(ctx context.Context, t Target, s *cloud.Session) error {
	zero, others, err := t.cells(ctx)
	switch {
	case err != nil:
		return err
	case zero != 1 || others == 0:
		return fmt.Errorf("nova: %d of cell0 and %d other cells are mapped, both must be there; the job schema-nova maps them", zero, others)
	}
	c := t.nova(s)
	if _, err := All(ctx, flavors.ListDetail(c, nil), flavors.ExtractFlavors); err != nil {
		return fmt.Errorf("nova %s: list flavors: %w", t.Nova, err)
	}
	have, err := All(ctx, services.List(c, nil), services.ExtractServices)
	if err != nil {
		return fmt.Errorf("nova %s: list services: %w", t.Nova, err)
	}
	var errs []error
	for _, binary := range []string{service.NovaConductor, service.NovaScheduler} {
		if !slices.ContainsFunc(have, func(s services.Service) bool { return s.Binary == binary && s.State == "up" && s.Status == "enabled" }) {
			errs = append(errs, fmt.Errorf("nova: no %s is up and enabled; its log: regiond kubectl logs -n %s deployment/%s", binary, t.Namespace, binary))
		}
	}
	return errors.Join(errs...)
}
