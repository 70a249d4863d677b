package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/service"
)

// Host is a compute host as Nova and Neutron know it.
type Host struct {
	// Service is Nova's, nil if it has none.
	Service *services.Service
	// Mapped: the host is in a cell. Hypervisors of hosts that are not are left out of Nova's list.
	Mapped bool
	// Guests that Nova has on the host, running or not.
	Guests int
	// Agents of Neutron, sorted by their binary.
	Agents []agents.Agent
}

// Hosts lists compute hosts by name.
func Hosts(ctx context.Context, t Target, s *cloud.Session) (map[string]Host, error) {
	c := t.nova(s)
	registered, err := All(ctx, services.List(c, services.ListOpts{Binary: service.NovaCompute}), services.ExtractServices)
	if err != nil {
		return nil, fmt.Errorf("nova %s: list services: %w", t.Nova, err)
	}
	hosts := map[string]Host{}
	for i, r := range registered {
		hosts[r.Host] = Host{Service: &registered[i]}
	}
	mapped, err := All(ctx, hypervisors.List(c, nil), hypervisors.ExtractHypervisors)
	if err != nil {
		return nil, fmt.Errorf("nova %s: list hypervisors: %w", t.Nova, err)
	}
	for _, h := range mapped {
		host := hosts[h.Service.Host]
		host.Mapped, host.Guests = true, h.RunningVMs // Nova's resource tracker counts all instances of the host under this name
		hosts[h.Service.Host] = host
	}
	found, err := All(ctx, agents.List(t.neutron(s), nil), agents.ExtractAgents)
	if err != nil {
		return nil, fmt.Errorf("neutron %s: list agents: %w", t.Neutron, err)
	}
	for _, a := range found {
		host := hosts[a.Host]
		host.Agents = append(host.Agents, a)
		hosts[a.Host] = host
	}
	for _, h := range hosts {
		slices.SortFunc(h.Agents, func(a, b agents.Agent) int { return strings.Compare(a.Binary, b.Binary) })
	}
	return hosts, nil
}
