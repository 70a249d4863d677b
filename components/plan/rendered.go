package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// NodesOf returns the hosts of a cluster whose configuration can be rendered: the named ones, or
// else all hosts that are in the region file or, if c is not nil, in the control plane.
func NodesOf(ctx context.Context, c client.Client, r *region.Region, d *region.OpenStackDeclaration, names []string) ([]configgen.Node, error) {
	known := map[string]configgen.Node{}
	add := func(n configgen.Node) {
		if n.Address == "" {
			n.Address = "<address:" + n.Name + ">" // its agent has not reported one yet
		}
		known[n.Name] = n
	}
	for _, n := range d.Nodes {
		add(configgen.Node{Name: n.Name})
	}
	for _, s := range r.Spec.Hardware.Servers {
		// A server whose profile depends on its inventory may belong to any cluster.
		if p, sure := region.ProfileOf(&r.Spec.Hardware, s); len(d.Profiles) == 0 || !sure || p != nil && slices.Contains(d.Profiles, p.Name) {
			add(configgen.Node{Name: s.Name})
		}
	}
	if c != nil {
		hosts, err := Hosts(ctx, c, r, &region.OpenStackCluster{Spec: region.OpenStackClusterSpec{OpenStackDeclaration: *d}})
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			add(configgen.Node{Name: h.Name, Address: h.Address, Registration: h.Registration})
		}
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(known))
	}
	nodes := make([]configgen.Node, len(names))
	for i, name := range names {
		if _, ok := known[name]; !ok {
			return nil, unknownNode(d.Name, name, slices.Sorted(maps.Keys(known)), c != nil)
		}
		nodes[i] = known[name]
	}
	return nodes, nil
}

// unknownNode refuses an unknown host: a configuration rendered for it would belong to no machine.
func unknownNode(cluster, name string, known []string, asked bool) error {
	where := "in the region file; discovered servers are known only if the control plane responds, on the seed host"
	if asked {
		where = "neither in the region file nor among its hosts"
	}
	return fmt.Errorf("--node %s: cluster %s has no such host %s; %s", name, cluster, where, check.DidYouMean(name, known, "node"))
}
