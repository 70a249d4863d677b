package cloud

import (
	"context"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"
)

// Reported is nil if every service of nova and every agent of Neutron is up and has said so after a time, and there are as many
// compute services and Open vSwitch agents as nodes. Times are the databases', which know seconds.
func (c *Cloud) Reported(ctx context.Context, since time.Time, nodes int) error {
	pages, err := services.List(c.compute, services.ListOpts{}).AllPages(ctx)
	if err != nil {
		return fmt.Errorf("list compute services: %w", err)
	}
	found, err := services.ExtractServices(pages)
	if err != nil {
		return fmt.Errorf("list compute services: %w", err)
	}
	since = since.Truncate(time.Second)
	computes := 0
	for _, s := range found {
		if s.State != "up" || s.UpdatedAt.Before(since) {
			return fmt.Errorf("%s on %s is %s, last heard of at %s", s.Binary, s.Host, s.State, s.UpdatedAt.Format(time.TimeOnly))
		}
		if s.Binary == "nova-compute" {
			computes++
		}
	}
	agentPages, err := agents.List(c.network, agents.ListOpts{}).AllPages(ctx)
	if err != nil {
		return fmt.Errorf("list network agents: %w", err)
	}
	all, err := agents.ExtractAgents(agentPages)
	if err != nil {
		return fmt.Errorf("list network agents: %w", err)
	}
	switches := 0
	for _, a := range all {
		if !a.Alive || a.HeartbeatTimestamp.Before(since) {
			return fmt.Errorf("%s on %s: alive %v, last heard of at %s", a.Binary, a.Host, a.Alive, a.HeartbeatTimestamp.Format(time.TimeOnly))
		}
		if a.Binary == "neutron-openvswitch-agent" {
			switches++
		}
	}
	if computes != nodes || switches != nodes {
		return fmt.Errorf("%d compute services and %d Open vSwitch agents, want %d", computes, switches, nodes)
	}
	return nil
}
