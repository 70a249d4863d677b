package cluster

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
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

// reportHosts writes the state of each node into the status of its Host, where it changed.
func (t *turn) reportHosts(ctx context.Context, nodes []region.OpenStackNode) error {
	for _, n := range nodes {
		h := &region.Host{}
		if err := t.Client.Get(ctx, client.ObjectKey{Name: n.Name}, h); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return fmt.Errorf("host %s: %w", n.Name, err)
		}
		now := region.HostOpenStack{Cluster: t.cluster.Name, Ready: n.Ready, Message: n.Message}
		if h.Status.OpenStack != nil && *h.Status.OpenStack == now {
			continue
		}
		before := h.DeepCopy()
		h.Status.OpenStack = &now
		if err := t.Live.Status().Patch(ctx, h, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("host %s: write its state in OpenStack cluster %s: %w", n.Name, t.cluster.Name, err)
		}
	}
	return nil
}
