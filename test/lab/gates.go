package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"regiond.dev/regiond/region"
)

// cluster is the lab's OpenStack, nil before it was made. What its status says from before the
// regiond that runs has started is not believed; nothing of it is while it isn't known when that
// was.
func (f Facts) cluster() *region.OpenStackCluster {
	i := slices.IndexFunc(f.Clusters, func(c region.OpenStackCluster) bool { return c.Name == clusterName })
	if i < 0 {
		return nil
	}
	c, since := f.Clusters[i].DeepCopy(), f.Started
	if since.IsZero() {
		since = time.Now().Add(time.Second)
	}
	c.Unchecked(since, time.Now())
	return c
}

// clusterReady tells whether all that is desired of a cluster now was reached.
func clusterReady(c *region.OpenStackCluster) bool {
	return c != nil && c.Status.ObservedGeneration == c.Generation && meta.IsStatusConditionTrue(c.Status.Conditions, region.ConditionReady)
}

// GateLine is what `lab up` prints when a gate of OpenStack was passed.
func GateLine(gate string) string { return "openstack " + clusterName + ": " + gate + " passed" }

// ClusterReadyLine is what `lab up` prints when OpenStack is Ready.
const ClusterReadyLine = "openstack " + clusterName + ": Ready"

// clusterWaiter remembers what was reported of OpenStack.
type clusterWaiter struct {
	gates int             // how many of region.Gates
	nodes map[string]bool // that were seen up
	ready bool
	spoke time.Time // when something was reported last
}

// patience is how long a cluster may go without a word.
const patience = 30 * time.Second

// next reports each gate once, in order, then each node, then that all is Ready.
func (w *clusterWaiter) next(c *region.OpenStackCluster, report func(string, ...any)) (ready bool) {
	if w.nodes == nil {
		w.nodes, w.spoke = map[string]bool{}, time.Now()
	}
	if c == nil {
		return false
	}
	say := func(format string, args ...any) {
		report(format, args...)
		w.spoke = time.Now()
	}
	if w.gates == 0 && clusterReady(c) { // it was brought up before: nothing of that is news
		w.gates = len(region.Gates)
		for _, n := range c.Status.Nodes {
			w.nodes[n.Name] = true
		}
	}
	for ; w.gates < len(region.Gates); w.gates++ {
		gate := meta.FindStatusCondition(c.Status.Conditions, region.Gates[w.gates])
		if gate == nil || gate.Status != "True" {
			break
		}
		say("%s: %s", GateLine(gate.Type), gate.Message)
	}
	for _, n := range c.Status.Nodes {
		if n.Ready && !w.nodes[n.Name] {
			w.nodes[n.Name] = true
			say("openstack %s: node %s: services and agents are up", c.Name, n.Name)
		}
	}
	if ready = clusterReady(c); ready && !w.ready {
		w.ready = true
		say("%s (%s at %s, %d services, %d nodes)", ClusterReadyLine, c.Spec.Release, c.Spec.Address, len(c.Status.Services), c.Status.NodesTotal)
	}
	if !ready && time.Since(w.spoke) > patience {
		say("openstack %s: waits: %s", c.Name, waitsFor(c))
	}
	return ready
}

// waitsFor is the message of what is not passed yet.
func waitsFor(c *region.OpenStackCluster) string {
	for _, t := range slices.Concat([]string{region.ConditionConfigured}, region.Gates, []string{region.ConditionNodes, region.ConditionReady}) {
		if x := meta.FindStatusCondition(c.Status.Conditions, t); x != nil && x.Status != "True" {
			return fmt.Sprintf("%s: %s: %s", x.Type, x.Reason, x.Message)
		}
	}
	if c.Status.ObservedGeneration != c.Generation {
		return "regiond has not looked at what was declared last"
	}
	return "no condition says for what"
}

// clusterProblem says why OpenStack is not Ready, nil if it is.
func clusterProblem(c *region.OpenStackCluster) error {
	switch {
	case c == nil:
		return errors.New("OpenStack is not Ready: there is no OpenStackCluster object; does regiond say why? see `regiond lab exec -- regiond status`")
	case clusterReady(c):
		return nil
	}
	lines := []string{"OpenStack is not Ready: " + waitsFor(c)}
	for _, s := range c.Status.Services {
		if !s.Ready {
			lines = append(lines, "service "+s.Name+": "+s.Message)
		}
	}
	for _, n := range c.Status.Nodes {
		if !n.Ready {
			lines = append(lines, "node "+n.Name+": "+n.Message)
		}
	}
	return errors.New(strings.Join(lines, "\n  "))
}
