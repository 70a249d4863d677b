package computehost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// Options configure a retirement.
type Options struct {
	// Force continues even if regiond can't verify that the machine is off. The operator MUST be
	// certain that it is.
	Force bool
	// Progress is called with a description of each step.
	Progress func(text string)
	// OffTimeout bounds the wait for the machine to be off.
	OffTimeout time.Duration
}

// disabledReason is the reason that Nova shows.
const disabledReason = "regiond: it is taken out of service"

// Steps says what Retire will do, for a plan.
func (s *Survey) Steps() []string {
	var all []string
	for _, name := range s.Abandoned {
		all = append(all, fmt.Sprintf("OpenStack %s: abandon its guests on this host, which regiond can't list: running ones are lost", name))
	}
	for _, c := range s.Clouds {
		for _, v := range c.Services {
			all = append(all, fmt.Sprintf("OpenStack %s: disable %s, so that nothing new is scheduled on it", c.Cluster, v.Binary))
		}
	}
	switch {
	case s.Server != nil:
		all = append(all, "power the server off (by a shutdown of its system, or else by its BMC), keep it off, and remove its host's permissions and configuration")
	case s.Host != nil:
		all = append(all, "remove the host, its permissions and its configuration (regiond can't power it off; it must be off already)")
	}
	for _, c := range s.Clouds {
		for _, a := range c.Agents {
			all = append(all, fmt.Sprintf("OpenStack %s: delete Neutron's %s", c.Cluster, a.Binary))
		}
		for _, v := range c.Services {
			all = append(all, fmt.Sprintf("OpenStack %s: delete %s, its host's mapping to the cell and its resource provider", c.Cluster, v.Binary))
		}
		for _, p := range c.Providers {
			all = append(all, fmt.Sprintf("OpenStack %s: delete the resource provider %s if it is left, with allocations of deleted instances",
				c.Cluster, p.Name))
		}
	}
	return all
}

// Retire takes the host out of its clouds and its region.
func (s *Survey) Retire(ctx context.Context, o Options) error {
	if err := s.Refusal(); err != nil {
		return err
	}
	if err := s.stillReporting(); err != nil && !o.Force {
		return err
	}
	if err := s.Vacate(ctx, o.Progress); err != nil {
		return err
	}
	if err := s.stop(ctx, o); err != nil {
		return err
	}
	return s.Forget(ctx, o.Progress)
}

// Vacate disables the host's services, so that nothing new is scheduled on it, and returns nil only
// if no instance is on it afterwards.
func (s *Survey) Vacate(ctx context.Context, progress func(text string)) error {
	if err := s.Refusal(); err != nil {
		return err
	}
	for _, c := range s.Clouds {
		if err := c.Close(ctx, s.Name, disabledReason, progress); err != nil {
			return err
		}
	}
	if err := s.Refusal(); err != nil { // an instance was scheduled before the service was disabled
		return fmt.Errorf("%w; nothing new is scheduled on it", err)
	}
	return nil
}

// Forget deletes the host's records in all clouds. Its machine must be off: a running service would
// register again.
func (s *Survey) Forget(ctx context.Context, progress func(text string)) error {
	for _, c := range s.Clouds {
		if err := c.Forget(ctx, s.Name, progress); err != nil {
			return fmt.Errorf("OpenStack cluster %s: %w", c.Cluster, err)
		}
	}
	return nil
}

// Close disables the host's services, with a reason that Nova shows, and refreshes the survey.
func (c *Cloud) Close(ctx context.Context, name, reason string, progress func(string)) error {
	for _, v := range c.Services {
		if v.Status == string(services.ServiceDisabled) {
			continue
		}
		o := services.UpdateOpts{Status: services.ServiceDisabled, DisabledReason: reason}
		if _, err := services.Update(ctx, c.clients.Nova, v.ID, o).Extract(); err != nil {
			return fmt.Errorf("disable %s on %s: %w", v.Binary, name, err)
		}
		progress(v.Binary + " disabled")
	}
	return c.refresh(ctx, name)
}

// stop ensures that the machine is off and its agent has no permissions left.
func (s *Survey) stop(ctx context.Context, o Options) error {
	switch {
	case s.Server != nil:
		return s.stopServer(ctx, o)
	case s.Host != nil && !host.Enrolled(s.Host):
		return fmt.Errorf("host %s belongs to a server that does not exist; nothing was deleted", s.Name)
	}
	if s.Host == nil {
		return nil
	}
	if err := host.Unenroll(ctx, s.api, s.Name); err != nil {
		return err
	}
	o.Progress("host removed with its permissions and its configuration")
	return nil
}

// stillReporting returns an error if a machine without a BMC appears to be running: Nova's record
// of its reports is the only evidence.
func (s *Survey) stillReporting() error {
	if s.Server != nil {
		return nil
	}
	for _, c := range s.Clouds {
		for _, v := range c.Services {
			if v.State == "up" {
				return fmt.Errorf("%s on %s still reports to OpenStack %s, and regiond can't power the machine off; "+
					"stop it, wait a minute, and retry, or pass --force if you are certain that the machine is off",
					v.Binary, s.Name, c.Cluster)
			}
		}
	}
	return nil
}

func (s *Survey) stopServer(ctx context.Context, o Options) error {
	if !s.Server.Spec.Retired {
		before := s.Server.DeepCopy()
		s.Server.Spec.Retired = true
		if err := s.api.Patch(ctx, s.Server, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("server %s: %w", s.Name, err)
		}
	}
	o.Progress("waiting for the server to be powered off")
	last := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, o.OffTimeout, true, func(ctx context.Context) (bool, error) {
		now := &region.Server{}
		if err := s.api.Get(ctx, client.ObjectKey{Name: s.Name}, now); err != nil {
			last = err.Error()
			return false, client.IgnoreNotFound(err) // the API server may be restarting
		}
		for _, c := range now.Status.Conditions {
			if c.Type == region.ConditionReady {
				last = c.Message
			}
		}
		return now.Status.Phase == region.PhaseRetired, nil
	})
	switch {
	case err == nil:
		o.Progress("the server is off; its host's permissions and configuration are removed")
		return nil
	case ctx.Err() != nil, !o.Force:
		return fmt.Errorf("server %s is not confirmed to be off: %w; last state: %s; retry, or pass --force if you are certain that the machine is off", s.Name, err, last)
	}
	o.Progress("the server is not confirmed to be off; continuing because of --force")
	return host.Remove(ctx, s.api, s.Name)
}

// Forget deletes a cloud's records of the host. The host's compute service MUST NOT run: it would
// register again.
func (c *Cloud) Forget(ctx context.Context, name string, progress func(string)) error {
	for _, a := range c.Agents {
		if err := gate.Absent(deleteAgent(ctx, c.clients.Neutron, a.ID)); err != nil {
			return fmt.Errorf("delete Neutron's %s: %w", a.Binary, err)
		}
		progress("Neutron's " + a.Binary + " deleted")
	}
	for _, v := range c.Services {
		// Nova deletes the host's mapping, compute node and resource provider with the service, and
		// refuses while an instance is on it.
		err := gate.Absent(services.Delete(ctx, c.clients.Nova, v.ID).Err)
		if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
			return fmt.Errorf("nova refuses to delete %s because instances or migrations are still on %s; "+
				"see: regiond openstack -- server migration list --host %s: %w", v.Binary, name, name, err)
		}
		if err != nil {
			return fmt.Errorf("delete %s: %w", v.Binary, err)
		}
		progress(v.Binary + " deleted, with its host's mapping")
	}
	for _, p := range c.Providers {
		if err := c.forgetProvider(ctx, p, progress); err != nil {
			return fmt.Errorf("resource provider %s: %w", p.Name, err)
		}
	}
	return c.verify(ctx, name)
}

// forgetProvider deletes a resource provider, if it still exists, after the allocations of
// instances that no longer do.
func (c *Cloud) forgetProvider(ctx context.Context, p resourceproviders.ResourceProvider, progress func(string)) error {
	allocations, err := resourceproviders.GetAllocations(ctx, c.clients.Placement, p.UUID).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		progress("resource provider deleted")
		return nil
	}
	if err != nil {
		return err
	}
	for consumer := range allocations.Allocations {
		err := servers.Get(ctx, c.clients.Nova, consumer).Err
		switch {
		case err == nil:
			return fmt.Errorf("it holds resources of the existing instance %s; move or delete the instance first", consumer)
		case !gophercloud.ResponseCodeIs(err, http.StatusNotFound):
			return fmt.Errorf("look up instance %s, whose resources it holds: %w", consumer, err)
		}
		resp, err := c.clients.Placement.Delete(ctx, c.clients.Placement.ServiceURL("allocations", consumer), nil)
		if _, _, err = gophercloud.ParseResponse(resp, err); gate.Absent(err) != nil {
			return fmt.Errorf("delete the allocation of %s: %w", consumer, err)
		}
		progress("allocation of deleted instance " + consumer + " removed")
	}
	if err := gate.Absent(resourceproviders.Delete(ctx, c.clients.Placement, p.UUID).Err); err != nil {
		return err
	}
	progress("resource provider deleted")
	return nil
}

// verify checks that nothing is left.
func (c *Cloud) verify(ctx context.Context, name string) error {
	if err := c.refresh(ctx, name); err != nil {
		return err
	}
	if !c.Empty() {
		return errors.New("one of its services registered again while it was being deleted; check that the machine is off, then retry")
	}
	return nil
}

// deleteAgent deletes an agent of Neutron, for which gophercloud has no call.
func deleteAgent(ctx context.Context, c *gophercloud.ServiceClient, id string) error {
	resp, err := c.Delete(ctx, c.ServiceURL("agents", id), nil)
	_, _, err = gophercloud.ParseResponse(resp, err)
	return err
}
