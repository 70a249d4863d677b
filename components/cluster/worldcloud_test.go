package cluster_test

import (
	"context"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/region"
)

// cloud does as the test says.
type testCloud struct {
	failing map[string]error
	mu      sync.Mutex
	probed  []string
	// thorough are the gates that were probed thoroughly.
	thorough []string
	target   gate.Target
	ensured  cloud.Catalogue
	pruned   cloud.Catalogue
	users    cluster.HostUsers
	hosts    map[string]gate.Host
	// How often it was asked for all hosts, and to ensure their users.
	askedHosts, askedUsers int
	// guests on hosts.
	guests map[string][]computehost.Instance
	// did is what was done to hosts, in order.
	did []string
}

func (c *testCloud) Login(_ context.Context, t gate.Target) (*cloud.Session, error) {
	c.target = t
	return &cloud.Session{Expires: now.Add(1000 * time.Hour)}, c.failing[region.ConditionKeystone]
}

func (c *testCloud) Probe(_ context.Context, name string, t gate.Target, s *cloud.Session) error {
	c.mu.Lock() // probes run side by side
	defer c.mu.Unlock()
	c.probed = append(c.probed, name)
	if t.Thorough {
		c.thorough = append(c.thorough, name)
	}
	return c.failing[name]
}

func (c *testCloud) Ensure(_ context.Context, _ *cloud.Session, want cloud.Catalogue) ([]string, error) {
	c.ensured = want
	return nil, c.failing["catalogue"]
}

func (c *testCloud) EnsureHostUsers(_ context.Context, _ gate.Target, _ *cloud.Session, h cluster.HostUsers) ([]string, error) {
	c.askedUsers++
	if err := c.failing["users"]; err != nil {
		return nil, err
	}
	c.users = h
	return nil, nil
}

func (c *testCloud) Prune(_ context.Context, _ *cloud.Session, want cloud.Catalogue) ([]string, error) {
	c.pruned = want
	return nil, c.failing["catalogue"]
}

func (c *testCloud) Hosts(context.Context, gate.Target, *cloud.Session) (map[string]gate.Host, error) {
	c.askedHosts++
	return c.hosts, nil
}

func (c *testCloud) Ask(_ context.Context, _ gate.Target, _ *cloud.Session, cluster, host string) (*computehost.Cloud, error) {
	if err := c.failing["ask"]; err != nil {
		return nil, err
	}
	a := &computehost.Cloud{Cluster: cluster, Instances: c.guests[host]}
	if h, ok := c.hosts[host]; ok {
		a.Services, a.Agents = []services.Service{*h.Service}, h.Agents
	}
	return a, nil
}

func (c *testCloud) Close(_ context.Context, _ *computehost.Cloud, host, reason string) error {
	c.did = append(c.did, "disable "+host)
	c.hosts[host].Service.Status, c.hosts[host].Service.DisabledReason = "disabled", reason
	return nil
}

func (c *testCloud) Open(_ context.Context, _ gate.Target, _ *cloud.Session, service string) error {
	for _, h := range c.hosts {
		if h.Service.ID == service {
			c.did = append(c.did, "enable "+h.Service.Host)
			h.Service.Status, h.Service.DisabledReason = "enabled", ""
		}
	}
	return nil
}

func (c *testCloud) Forget(_ context.Context, _ *computehost.Cloud, host string) error {
	c.did = append(c.did, "forget "+host)
	delete(c.hosts, host)
	return nil
}

// register plays a nova-compute that starts.
func (c *testCloud) register(name, id string) {
	if c.hosts == nil {
		c.hosts = map[string]gate.Host{}
	}
	c.hosts[name] = gate.Host{Service: &services.Service{ID: id, Host: name, State: "up", Status: "enabled"},
		Agents: []agents.Agent{{Binary: "neutron-openvswitch-agent", Alive: true}}}
}

func (c *testCloud) mapAll() {
	for name, h := range c.hosts {
		h.Mapped = true
		c.hosts[name] = h
	}
}
