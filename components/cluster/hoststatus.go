package cluster

import (
	"context"
	"errors"
	"fmt"
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
		if err := t.writeOpenStack(ctx, h, state); err != nil && !apierrors.IsConflict(err) { // it changed, which wakes this cluster
			return err
		}
	}
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

// writeOpenStack writes into the status of a Host how a cluster sees it, nil for not at all.
func (c *Controller) writeOpenStack(ctx context.Context, h *region.Host, state *region.HostOpenStack) error {
	if equality.Semantic.DeepEqual(h.Status.OpenStack, state) {
		return nil
	}
	before := h.DeepCopy()
	h.Status.OpenStack = state
	err := c.Live.Status().Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("host %s: write its state in OpenStack: %w", h.Name, err)
	}
	c.tellHost(h, before.Status.OpenStack, state)
	return nil
}

// tellHost records that a host came into service in OpenStack, or went out of it.
func (c *Controller) tellHost(h *region.Host, was, is *region.HostOpenStack) {
	ready := func(s *region.HostOpenStack) bool { return s != nil && s.Ready }
	switch {
	case is == nil:
		event.Act(c.Events, h, "LeftCluster", "the host is not one of OpenStack cluster "+was.Cluster+" any more", nil)
	case ready(is) && !ready(was):
		event.Act(c.Events, h, "ServicesUp", "its services in OpenStack cluster "+is.Cluster+" are up", nil)
	case ready(was) && !ready(is):
		event.Act(c.Events, h, "ServicesNotReady", "its services in OpenStack cluster "+is.Cluster, errors.New(is.Message))
	}
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
		if err := c.writeOpenStack(ctx, h, nil); err != nil {
			return err
		}
	}
	return nil
}
