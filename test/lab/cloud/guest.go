package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"regiond.dev/regiond/images/guest"
)

// Guest is a virtual machine that this package made.
type Guest struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// Status as nova has it, e.g. ACTIVE.
	Status string `json:"status"`
	// Fault that nova gives for status ERROR.
	Fault string `json:"fault,omitempty"`
	// Task that nova is at, e.g. spawning.
	Task string `json:"task,omitempty"`
	// Node that it runs on.
	Node string `json:"node,omitempty"`
	// Address that DHCP gives it.
	Address string `json:"address,omitempty"`
	// Peers that it pings.
	Peers []Peer `json:"peers,omitempty"`
}

// peersKey of a server's metadata holds its peers.
const peersKey = "regiond-lab-peers"

// pollEvery is how often OpenStack is asked for what takes seconds. Each console costs the emulated processor of its host time
// that the guest needs.
const pollEvery = 2 * time.Second

// List the guests by name.
func (c *Cloud) List(ctx context.Context) ([]Guest, error) {
	pages, err := servers.List(c.compute, servers.ListOpts{Tags: Tag}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	found, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	addresses, err := c.addresses(ctx)
	if err != nil {
		return nil, err
	}
	guests := []Guest{}
	for _, s := range found {
		g := Guest{Name: s.Name, ID: s.ID, Status: s.Status, Fault: s.Fault.Message, Task: s.TaskState, Node: s.Host, Address: addresses[s.Name]}
		if p := s.Metadata[peersKey]; p != "" {
			if err := json.Unmarshal([]byte(p), &g.Peers); err != nil {
				return nil, fmt.Errorf("server %s: metadata %s: %w", s.Name, peersKey, err)
			}
		}
		guests = append(guests, g)
	}
	slices.SortFunc(guests, func(a, b Guest) int { return strings.Compare(a.Name, b.Name) })
	return guests, nil
}

// addresses of guests' ports by the guests' names.
func (c *Cloud) addresses(ctx context.Context) (map[string]string, error) {
	found, err := c.ports(ctx)
	addresses := map[string]string{}
	for _, p := range found {
		if len(p.FixedIPs) > 0 {
			addresses[p.Name] = p.FixedIPs[0].IPAddress
		}
	}
	return addresses, err
}

func (c *Cloud) ports(ctx context.Context) ([]ports.Port, error) {
	pages, err := ports.List(c.network, ports.ListOpts{Description: Tag}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list ports: %w", err)
	}
	return ports.ExtractPorts(pages)
}

// Get a guest by name.
func (c *Cloud) Get(ctx context.Context, name string) (Guest, error) {
	all, err := c.List(ctx)
	if err != nil {
		return Guest{}, err
	}
	var names []string
	for _, g := range all {
		if g.Name == name {
			return g, nil
		}
		names = append(names, g.Name)
	}
	if len(names) == 0 {
		return Guest{}, fmt.Errorf("there is no guest %q, nor any other: `regiond lab vm create %s` makes it", name, name)
	}
	return Guest{}, fmt.Errorf("there is no guest %q; there are %s", name, strings.Join(names, ", "))
}

// Create guests that are missing, on the node or spread over all nodes, and wait until all of the names are ACTIVE. Each
// is told to ping the others of the names and those that are there.
func (c *Cloud) Create(ctx context.Context, names []string, node string) ([]Guest, error) {
	w, err := c.ensure(ctx)
	if err != nil {
		return nil, err
	}
	there, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, n := range names {
		if !slices.ContainsFunc(there, func(g Guest) bool { return g.Name == n }) && !slices.Contains(missing, n) {
			missing = append(missing, n)
		}
	}
	var nodes []string
	if len(missing) > 0 {
		if nodes, err = c.spread(ctx, there, node); err != nil {
			return nil, err
		}
		if err := c.waitDHCP(ctx, w.network); err != nil {
			return nil, err
		}
	}
	// Ports first, so that every address is known before the first guest asks for what it is to ping.
	all := map[string]string{} // name: port
	peers := []Peer{}
	for _, g := range there {
		peers = append(peers, Peer{g.Name, g.Address})
	}
	for _, n := range missing {
		p, err := c.ensurePort(ctx, n, w)
		if err != nil {
			return nil, fmt.Errorf("port of %s: %w", n, err)
		}
		all[n], peers = p.ID, append(peers, Peer{n, p.FixedIPs[0].IPAddress})
	}
	for i, n := range missing {
		if err := c.boot(ctx, w, n, all[n], nodes[i%len(nodes)], others(peers, n)); err != nil {
			return nil, fmt.Errorf("guest %s: %w", n, err)
		}
		c.Report("%s: asked for on %s", n, nodes[i%len(nodes)])
	}
	return c.waitActive(ctx, names)
}

func others(all []Peer, name string) []Peer {
	return slices.DeleteFunc(slices.Clone(all), func(p Peer) bool { return p.Name == name || p.Address == "" })
}

// spread are the nodes to place guests on, those with the fewest guests first.
func (c *Cloud) spread(ctx context.Context, there []Guest, desired string) ([]string, error) {
	pages, err := services.List(c.compute, services.ListOpts{Binary: "nova-compute"}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list compute services: %w", err)
	}
	found, err := services.ExtractServices(pages)
	if err != nil {
		return nil, fmt.Errorf("list compute services: %w", err)
	}
	load := map[string]int{}
	for _, g := range there {
		load[g.Node]++
	}
	var nodes, down []string
	for _, s := range found {
		if s.State != "up" || s.Status != "enabled" {
			down = append(down, fmt.Sprintf("%s (%s, %s)", s.Host, s.State, s.Status))
		} else if desired == "" || s.Host == desired {
			nodes = append(nodes, s.Host)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there is no node to run guests on: want %q of %d compute services; not up: %v", desired, len(found), down)
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(load[a]-load[b], strings.Compare(a, b)) })
	return nodes, nil
}

// ensurePort makes the port of a guest, which belongs to it by its name.
func (c *Cloud) ensurePort(ctx context.Context, name string, w world) (*ports.Port, error) {
	found, err := c.ports(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if p.Name == name && p.NetworkID == w.network && len(p.FixedIPs) > 0 {
			return &p, nil
		}
	}
	return ports.Create(ctx, c.network, ports.CreateOpts{NetworkID: w.network, Name: name, Description: Tag, SecurityGroups: &[]string{w.group}}).Extract()
}

// pingPause is how long a guest rests after it has pinged all its peers.
const pingPause = 2 * time.Second

// nameLine is what a guest writes first of its user data, and nobody else could have told it.
const nameLine = "GUEST-NAME "

// userData makes a guest say its name and ping its peers for ever.
func userData(name string, peers []Peer) ([]byte, error) {
	const start = "#!ipxe\n"
	script := start + "echo " + nameLine + name + "\n"
	var addresses []netip.Addr
	for _, p := range peers {
		a, err := netip.ParseAddr(p.Address)
		if err != nil {
			return nil, fmt.Errorf("address of %s: %w", p.Name, err)
		}
		addresses = append(addresses, a)
	}
	if len(addresses) > 0 {
		script += strings.TrimPrefix(guest.Pings(pingPause, addresses...), start)
	}
	return []byte(script), nil
}

func (c *Cloud) boot(ctx context.Context, w world, name, port, node string, peers []Peer) error {
	list, err := json.Marshal(peers)
	if err != nil {
		return err
	}
	script, err := userData(name, peers)
	if err != nil {
		return err
	}
	opts := servers.CreateOpts{
		Name: name, ImageRef: w.image, FlavorRef: w.flavor, Networks: []servers.Network{{Port: port}},
		UserData: script, HypervisorHostname: node, Tags: []string{Tag},
	}
	if len(list) <= 255 { // what nova takes as a value
		opts.Metadata = map[string]string{peersKey: string(list)}
	}
	_, err = servers.Create(ctx, c.compute, opts, nil).Extract()
	return err
}

// waitActive reports each change of a guest's state.
func (c *Cloud) waitActive(ctx context.Context, names []string) ([]Guest, error) {
	started, last := time.Now(), map[string]string{}
	for {
		all, err := c.List(ctx)
		if err != nil {
			return nil, err
		}
		var mine []Guest
		active := 0
		for _, g := range all {
			if !slices.Contains(names, g.Name) {
				continue
			}
			mine = append(mine, g)
			if state := strings.TrimSpace(g.Status + " " + g.Task); state != last[g.Name] {
				last[g.Name] = state
				c.Report("%s: %s after %.0f s", g.Name, describe(g), time.Since(started).Seconds())
			}
			switch g.Status {
			case "ACTIVE":
				active++
			case "ERROR":
				return nil, fmt.Errorf("guest %s: nova says: %s; see `regiond openstack -- server show %s`, or delete it and try again",
					g.Name, cmp.Or(g.Fault, "ERROR, and no reason"), g.Name)
			}
		}
		if active == len(names) {
			return mine, nil
		}
		if err := c.wait(ctx, "guests to be ACTIVE", fmt.Sprint(last)); err != nil {
			return nil, err
		}
	}
}

func describe(g Guest) string {
	switch {
	case g.Status == "ACTIVE":
		return fmt.Sprintf("ACTIVE on %s, its address is %s", g.Node, g.Address)
	case g.Task != "":
		return g.Status + " (" + g.Task + ")"
	}
	return g.Status
}

// wait for the next look, or say what was waited for.
func (c *Cloud) wait(ctx context.Context, what, found string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w; last seen: %s", what, context.Cause(ctx), found)
	case <-time.After(c.poll):
		return nil
	}
}
