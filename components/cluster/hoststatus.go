package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
)

// summarise nodes in the status of their cluster: how many there are, and those that are not ready first, as far as they fit.
func summarise(s *region.OpenStackClusterStatus, nodes []region.OpenStackNode) {
	listed := slices.Clone(nodes)
	slices.SortStableFunc(listed, func(a, b region.OpenStackNode) int {
		switch {
		case a.Ready == b.Ready:
			return 0 // by name, as they came
		case b.Ready:
			return -1
		}
		return 1
	})
	s.NodesTotal, s.NodesReady = int32(len(nodes)), 0
	for _, n := range nodes {
		if n.Ready {
			s.NodesReady++
		}
	}
	s.Nodes = listed[:min(len(listed), region.MaxListedNodes)]
}

// reportHosts writes the state of each node into the status of its Host, where it changed, and
// takes it out of that of hosts that are no longer nodes. Of a host that leaves, the cluster that
// has it as a node tells, if there is one: each write wakes all clusters, and two that both wrote
// would never stop.
func (t *reconciliation) reportHosts(ctx context.Context, nodes []region.OpenStackNode) error {
	var hosts region.HostList
	if err := t.Client.List(ctx, &hosts); err != nil {
		return err
	}
	states := map[string]*region.HostOpenStack{}
	for _, n := range nodes {
		states[n.Name] = &region.HostOpenStack{Cluster: t.cluster.Name, Ready: n.Ready, Message: n.Message}
	}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		state, known := states[h.Name]
		leaves := slices.ContainsFunc(t.facts.Leaving, func(l Leaving) bool { return l.Name == h.Name })
		if !t.tells(h, known, leaves) {
			continue
		}
		was := h.Status.OpenStack
		switch changed, err := t.writeOpenStack(ctx, h, state); {
		case apierrors.IsConflict(err): // it changed, which wakes this cluster
		case err != nil:
			return err
		case changed:
			t.tellHost(h, was, state)
		}
	}
	maps.DeleteFunc(t.seen.served, func(name string, _ bool) bool { // of a host that is gone
		return !slices.ContainsFunc(hosts.Items, func(h region.Host) bool { return h.Name == name })
	})
	return nil
}

// tells says whether the state of a host is this cluster's to write.
func (t *reconciliation) tells(h *region.Host, known, leaves bool) bool {
	was := h.Status.OpenStack
	ours := was != nil && was.Cluster == t.cluster.Name
	switch {
	case known && leaves:
		return was == nil || ours
	case known:
		return true
	}
	return ours && t.facts.Trouble == nil // with trouble, it may not be known which hosts are nodes
}

// writeOpenStack writes into the status of a Host how a cluster sees it, nil for not at all, and
// says whether that is another state.
func (c *Controller) writeOpenStack(ctx context.Context, h *region.Host, state *region.HostOpenStack) (changed bool, err error) {
	if equality.Semantic.DeepEqual(h.Status.OpenStack, state) {
		return false, nil
	}
	before := h.DeepCopy()
	h.Status.OpenStack = state
	err = c.Live.Status().Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("host %s: write its state in OpenStack: %w", h.Name, err)
	}
	return err == nil, nil
}

// tellHost records that a host came into service in OpenStack, or went out of it. While Nova and
// Neutron can't be asked, as for a moment after each start of regiond, no host is called ready, and
// nothing has happened to any: what was last known of it stands until they were asked.
func (t *reconciliation) tellHost(h *region.Host, was, is *region.HostOpenStack) {
	served, kept := t.seen.served[h.Name]
	if !kept {
		served = was != nil && was.Ready
	}
	if is != nil && !is.Ready && t.facts.NodesError != "" {
		t.seen.served[h.Name] = served
		return
	}
	delete(t.seen.served, h.Name)
	switch {
	case is == nil:
		t.tellLeft(h, was)
	case is.Ready && !served:
		event.Act(t.Events, h, "ServicesUp", "its services in OpenStack cluster "+is.Cluster+" are up", nil)
	case served && !is.Ready:
		event.Act(t.Events, h, "ServicesNotReady", "its services in OpenStack cluster "+is.Cluster, errors.New(is.Message))
	}
}

func (c *Controller) tellLeft(h *region.Host, was *region.HostOpenStack) {
	event.Act(c.Events, h, "LeftCluster", "the host is not one of OpenStack cluster "+was.Cluster+" any more", nil)
}

// clearHosts takes a cluster that is removed out of the status of Hosts.
func (c *Controller) clearHosts(ctx context.Context, cluster string) error {
	var hosts region.HostList
	if err := c.Live.List(ctx, &hosts); err != nil {
		return err
	}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if h.Status.OpenStack == nil || h.Status.OpenStack.Cluster != cluster {
			continue
		}
		was := h.Status.OpenStack
		changed, err := c.writeOpenStack(ctx, h, nil)
		if err != nil {
			return err
		}
		if changed {
			c.tellLeft(h, was)
		}
	}
	return nil
}
