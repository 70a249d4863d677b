// Package computehost removes a compute host from its cloud and its region for good. Every step
// observes first, so that it can be repeated after an interruption, and nothing is removed while a
// guest is on the host.
package computehost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
)

// Instance is a guest on the host.
type Instance struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project"`
	Status  string `json:"status"`
}

// Survey is everything that is known of a host before it is retired.
type Survey struct {
	Name string `json:"name"`
	// Server and Host are its objects in the region; nil if there are none.
	Server *region.Server `json:"-"`
	Host   *region.Host   `json:"-"`
	// Clouds that have records of the host: one, unless something went wrong.
	Clouds []*Cloud `json:"clouds"`
	// Unasked are OpenStack clusters that gave the host compute services but can't be asked whether it
	// has guests.
	Unasked []Unasked `json:"unasked,omitempty"`
	// Abandoned are former Unasked clusters whose guests on the host the operator has abandoned.
	Abandoned []string `json:"abandoned,omitempty"`

	api client.Client
}

// Unasked is an OpenStack cluster that can't be asked for its guests.
type Unasked struct {
	Cluster string `json:"cluster"`
	// Why it can't be asked, and how to make that possible.
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
}

// Cloud is one OpenStack cluster's records of the host.
type Cloud struct {
	Cluster   string     `json:"cluster"`
	Instances []Instance `json:"instances"`
	// Held are instances that hold resources of the host although Nova does not list them on it: they
	// are on their way to it, or their disks are still on it because a resize has not been confirmed.
	Held      []Instance                           `json:"held,omitempty"`
	Services  []services.Service                   `json:"services"`
	Agents    []agents.Agent                       `json:"agents"`
	Providers []resourceproviders.ResourceProvider `json:"resourceProviders"`

	clients gate.Clients
}

// Empty reports whether the cluster has no records of the host.
func (c *Cloud) Empty() bool {
	return len(c.Instances)+len(c.Services)+len(c.Agents)+len(c.Providers) == 0
}

// Inspect surveys a host in the region and in all of its OpenStack clusters. target returns the
// addresses and credentials of a cluster's services: cluster.Target.
func Inspect(ctx context.Context, api client.Client, name string, target func(*region.OpenStackCluster, map[string]any) gate.Target) (*Survey, error) {
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
	given, err := plan.ComputeOf(ctx, api, s.Host, name)
	if err != nil {
		return nil, err
	}
	var clusters region.OpenStackClusterList
	if err := api.List(ctx, &clusters); err != nil {
		return nil, err
	}
	for i := range clusters.Items {
		if err := s.inspect(ctx, &clusters.Items[i], slices.Contains(given, clusters.Items[i].Name), target); err != nil {
			return nil, fmt.Errorf("OpenStack cluster %s, which may have guests on %s: %w", clusters.Items[i].Name, name, err)
		}
	}
	for _, cluster := range given {
		if !slices.ContainsFunc(clusters.Items, func(c region.OpenStackCluster) bool { return c.Name == cluster }) {
			s.Unasked = append(s.Unasked, Unasked{Cluster: cluster, Why: "it is no longer declared, so none of its services are running",
				Remedy: "declare it in region.yaml again, which restores it with its data"})
		}
	}
	if s.Server == nil && s.Host == nil && len(s.Clouds) == 0 {
		return nil, fmt.Errorf("there is no server or host %s, and no OpenStack cluster has records of it; see: regiond status", name)
	}
	if len(given) == 0 && len(s.Clouds) == 0 && runsCompute(s.Host) {
		s.Unasked = append(s.Unasked, Unasked{Cluster: unknownCluster, Why: "the host's agent reports " + service.NovaCompute +
			", and no OpenStack cluster of the region has records of the host", Remedy: "declare the cluster that configured it in region.yaml again"})
	}
	return s, nil
}

// unknownCluster stands for the cluster of a host that was configured before regiond kept a record
// of that.
const unknownCluster = "unknown"

// runsCompute reports whether a host's agent reports a nova-compute, running or not.
func runsCompute(h *region.Host) bool {
	return h != nil && h.Status.Configuration != nil &&
		slices.ContainsFunc(h.Status.Configuration.Processes, func(p region.HostProcess) bool { return p.Service == service.NovaCompute+".service" })
}

// inspect queries one cluster. A cluster without secrets has no services to query; only if it never
// gave the host compute services is it certain that it has no guests there.
func (s *Survey) inspect(ctx context.Context, cluster *region.OpenStackCluster, given bool, target func(*region.OpenStackCluster,
	map[string]any) gate.Target) error {
	secrets, err := plan.Secrets(ctx, s.api, cluster.Name)
	if err != nil {
		return err
	}
	if secrets == nil {
		if given {
			s.Unasked = append(s.Unasked, Unasked{Cluster: cluster.Name, Why: fmt.Sprintf("its secret %s/%s is missing",
				openstack.Namespace(cluster.Name), openstack.SecretName), Remedy: "restore that from a backup"})
		}
		return nil
	}
	to := target(cluster, secrets)
	session, err := gate.Keystone(ctx, to)
	if err != nil {
		return err
	}
	c, err := Ask(ctx, to, session, cluster.Name, s.Name)
	if err == nil && !c.Empty() {
		s.Clouds = append(s.Clouds, c)
	}
	return err
}

// Ask queries one OpenStack cluster's records of a host.
func Ask(ctx context.Context, to gate.Target, session *cloud.Session, cluster, host string) (*Cloud, error) {
	c := &Cloud{Cluster: cluster, Instances: []Instance{}, clients: to.Clients(session)}
	return c, c.refresh(ctx, host)
}

// refresh queries Nova, Neutron and Placement for everything on the host and about it.
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
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.Held, err = c.held(ctx); err != nil {
		return fmt.Errorf("list the consumers of its resources: %w", err)
	}
	return nil
}

// held lists the instances that have an allocation of the host in Placement. The scheduler creates
// the allocation before the instance is on the host.
func (c *Cloud) held(ctx context.Context) ([]Instance, error) {
	var all []Instance
	for _, p := range c.Providers {
		allocations, err := resourceproviders.GetAllocations(ctx, c.clients.Placement, p.UUID).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, consumer := range slices.Sorted(maps.Keys(allocations.Allocations)) {
			if slices.ContainsFunc(c.Instances, func(i Instance) bool { return i.ID == consumer }) {
				continue
			}
			v, err := servers.Get(ctx, c.clients.Nova, consumer).Extract()
			switch {
			case gophercloud.ResponseCodeIs(err, http.StatusNotFound): // a deleted instance
			case err != nil:
				return nil, err
			default:
				all = append(all, Instance{ID: v.ID, Name: v.Name, Project: v.TenantID, Status: v.Status})
			}
		}
	}
	return all, nil
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

// providers returns the resource providers of a host. They have the name of its hypervisor, which
// is the host's name with or without a domain.
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

// Refusal says why the host may not be retired; nil if it may. Force overrides neither guests nor
// uncertainty about guests.
func (s *Survey) Refusal() error {
	var guests []string
	for _, c := range s.Clouds {
		guests = append(guests, c.Guests()...)
	}
	if len(guests) > 0 {
		return fmt.Errorf("%d instances are on %s: %s; %s", len(guests), s.Name, Listed(guests), Remedy)
	}
	var errs []error
	for _, u := range s.Unasked {
		errs = append(errs, fmt.Errorf("OpenStack cluster %s has configured %s as a compute host and can't be asked for its guests: %s; "+
			"%s, or, if its guests on %s may be lost, pass --abandon-guests %s", u.Cluster, s.Name, u.Why, u.Remedy, s.Name, u.Cluster))
	}
	return errors.Join(errs...)
}

// Guests describes the instances on the host, and those on their way to or from it.
func (c *Cloud) Guests() []string {
	var all []string
	for _, i := range c.Instances {
		all = append(all, i.String())
	}
	for _, i := range c.Held {
		all = append(all, i.String()+", which is on its way to or from it")
	}
	return all
}

// Remedy says what to do about guests on the host. Nova can't move them between hosts yet, because
// libvirt's daemons do not reach each other.
const Remedy = "no guest can be moved to another host yet: delete those that are not needed; of each other one make an image and start " +
	"another guest from that (regiond openstack -- server stop ID; server image create --wait --name NAME ID; server create --image NAME ...), " +
	"then delete it"

// maxListed is the maximum number of guests that a message names.
const maxListed = 20

// Listed joins a list for a message, which names the first maxListed.
func Listed(all []string) string {
	if more := len(all) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxListed], ", "), more)
	}
	return strings.Join(all, ", ")
}

func (i Instance) String() string {
	return fmt.Sprintf("%s (%s, %s, project %s)", i.Name, i.ID, strings.ToLower(i.Status), i.Project)
}

// Abandon records the operator's consent that guests of clusters that can't be asked are lost with
// the host. Guests of clusters that can be asked are not abandoned, because they can be deleted.
func (s *Survey) Abandon(clusters []string) error {
	for _, name := range clusters {
		at := slices.IndexFunc(s.Unasked, func(u Unasked) bool { return u.Cluster == name })
		if at < 0 {
			return fmt.Errorf("--abandon-guests %s: not an OpenStack cluster that may have guests on %s and can't be asked for them", name, s.Name)
		}
		s.Unasked = slices.Delete(s.Unasked, at, at+1)
		s.Abandoned = append(s.Abandoned, name)
	}
	return nil
}

// Removable says why the host's objects may not be removed while its machine is still running; nil
// if they may. A compute service that is left in a cloud would still be given guests.
func (s *Survey) Removable() error {
	if err := s.Refusal(); err != nil {
		return err
	}
	if len(s.Clouds) > 0 {
		return fmt.Errorf("OpenStack cluster %s still has services or resources of %s; take it out of the cluster first: regiond server retire %s",
			s.Clouds[0].Cluster, s.Name, s.Name)
	}
	return nil
}
