// Package retirement takes a compute host out of its cloud and its region for good. Every step looks first, so that it can be
// repeated after it was cut off, and nothing is taken away while a guest is left on the host.
package retirement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/controller/gate"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

// Instance is a guest on the host.
type Instance struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project"`
	Status  string `json:"status"`
}

// Survey is what there is of a host before it is retired.
type Survey struct {
	Name string `json:"name"`
	// Server and Host are what the region knows of it; nil if it does not.
	Server *region.Server `json:"-"`
	Host   *region.Host   `json:"-"`
	// Clouds that know the host: one, but for mistakes.
	Clouds []*Cloud `json:"clouds"`

	api client.Client
}

// Cloud is what one OpenStack cluster knows of the host.
type Cloud struct {
	Cluster   string                               `json:"cluster"`
	Instances []Instance                           `json:"instances"`
	Services  []services.Service                   `json:"services"`
	Agents    []agents.Agent                       `json:"agents"`
	Providers []resourceproviders.ResourceProvider `json:"resourceProviders"`

	clients gate.Clients
}

func (c *Cloud) empty() bool {
	return len(c.Instances)+len(c.Services)+len(c.Agents)+len(c.Providers) == 0
}

// Look surveys a host in the region and in all of its OpenStack clusters. target says how a cluster's services are reached, with
// which secrets: controller.Target.
func Look(ctx context.Context, api client.Client, name string, target func(*region.OpenStackCluster, map[string]any) gate.Target) (*Survey, error) {
	s := &Survey{Name: name, Clouds: []*Cloud{}, api: api}
	server, host := &region.Server{}, &region.Host{}
	switch err := api.Get(ctx, client.ObjectKey{Name: name}, server); {
	case err == nil:
		s.Server = server
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	switch err := api.Get(ctx, client.ObjectKey{Name: name}, host); {
	case err == nil:
		s.Host = host
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	var clusters region.OpenStackClusterList
	if err := api.List(ctx, &clusters); err != nil {
		return nil, err
	}
	for i := range clusters.Items {
		c, err := look(ctx, api, &clusters.Items[i], name, target)
		if err != nil {
			return nil, fmt.Errorf("OpenStack cluster %s, which may have guests on %s: %w", clusters.Items[i].Name, name, err)
		}
		if c != nil && !c.empty() {
			s.Clouds = append(s.Clouds, c)
		}
	}
	if s.Server == nil && s.Host == nil && len(s.Clouds) == 0 {
		return nil, fmt.Errorf("there is no server or host %s, and no OpenStack cluster knows it; see: regiond status", name)
	}
	return s, nil
}

// look returns nil for a cluster that never had secrets, and so no services.
func look(ctx context.Context, api client.Client, cluster *region.OpenStackCluster, name string, target func(*region.OpenStackCluster,
	map[string]any) gate.Target) (*Cloud, error) {
	secrets, err := rollout.Secrets(ctx, api, cluster.Name)
	if err != nil || secrets == nil {
		return nil, err
	}
	to := target(cluster, secrets)
	session, err := gate.Keystone(ctx, to)
	if err != nil {
		return nil, err
	}
	c := &Cloud{Cluster: cluster.Name, Instances: []Instance{}, clients: to.Clients(session)}
	return c, c.refresh(ctx, name)
}

// refresh asks Nova, Neutron and Placement for all that is on or of the host.
func (c *Cloud) refresh(ctx context.Context, name string) error {
	var errs []error
	var err error
	if c.Instances, err = instances(ctx, c.clients, name); err != nil {
		errs = append(errs, fmt.Errorf("list its instances: %w", err))
	}
	if c.Services, err = gate.All(ctx, services.List(c.clients.Nova, services.ListOpts{Host: name}), services.ExtractServices); err != nil {
		errs = append(errs, fmt.Errorf("list its services: %w", err))
	}
	if c.Agents, err = gate.All(ctx, agents.List(c.clients.Neutron, agents.ListOpts{Host: name}), agents.ExtractAgents); err != nil {
		errs = append(errs, fmt.Errorf("list its agents: %w", err))
	}
	if c.Providers, err = providers(ctx, c.clients, name); err != nil {
		errs = append(errs, fmt.Errorf("list its resource providers: %w", err))
	}
	return errors.Join(errs...)
}

func instances(ctx context.Context, c gate.Clients, name string) ([]Instance, error) {
	found, err := gate.All(ctx, servers.List(c.Nova, servers.ListOpts{Host: name, AllTenants: true}), servers.ExtractServers)
	if err != nil {
		return nil, err
	}
	all := []Instance{}
	for _, s := range found {
		all = append(all, Instance{ID: s.ID, Name: s.Name, Project: s.TenantID, Status: s.Status})
	}
	return all, nil
}

// providers of a host are named by its hypervisor, and that by the host's name, with or without a domain.
func providers(ctx context.Context, c gate.Clients, name string) ([]resourceproviders.ResourceProvider, error) {
	names := []string{name}
	known, err := gate.All(ctx, hypervisors.List(c.Nova, nil), hypervisors.ExtractHypervisors)
	if err != nil {
		return nil, err
	}
	for _, h := range known {
		if h.Service.Host == name && !slices.Contains(names, h.HypervisorHostname) {
			names = append(names, h.HypervisorHostname)
		}
	}
	var all []resourceproviders.ResourceProvider
	for _, n := range names {
		found, err := gate.All(ctx, resourceproviders.List(c.Placement, resourceproviders.ListOpts{Name: n}), resourceproviders.ExtractResourceProviders)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Refusal says why the host may not be retired, nil if it may. Force does not overrule guests.
func (s *Survey) Refusal() error {
	var guests []string
	for _, c := range s.Clouds {
		for _, i := range c.Instances {
			guests = append(guests, fmt.Sprintf("%s (%s, %s, project %s)", i.Name, i.ID, strings.ToLower(i.Status), i.Project))
		}
	}
	if len(guests) > 0 {
		return fmt.Errorf("%d instances are on %s: %s; move or delete them first: regiond openstack -- server migrate --live-migration ID", len(guests),
			s.Name, strings.Join(guests, ", "))
	}
	return nil
}
