package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
)

// nodePoll is the time between looks at nodes that are all ready.
const nodePoll = time.Minute

// rolloutPoll is the time between looks at nodes while some of them change: each one waits for those before it.
const rolloutPoll = time.Second

// nodes says which nodes get their configuration, whether some are to be mapped to their cell, and how each stands.
func (d *decider) nodes() {
	unmapped := false
	d.batch()
	for _, n := range d.f.Nodes {
		message := d.nodeMessage(n)
		d.nodeStates = append(d.nodeStates, region.OpenStackNode{Name: n.Name, Ready: message == "", Message: message})
		unmapped = unmapped || n.unmapped()
		if message != "" {
			d.again(max(observePoll, d.f.NodesAgain))
		}
	}
	if d.rolling.Moving > 0 {
		d.again(rolloutPoll)
	}
	if len(d.f.Nodes) > 0 {
		d.again(nodePoll)
	}
	if !unmapped || d.f.NodesError != "" || !d.proved(region.ConditionNova) {
		return
	}
	// One job at a time: its name is always the same, so the API server sees to it.
	m := d.f.Mapping
	ended := m.Present && (m.Waiting == "" || !m.Failed.IsZero())
	d.mapHosts, d.mapAgain = !m.Present || ended, ended
	if retry := d.f.remapAt(); ended && d.now.Before(retry) {
		d.mapHosts, d.mapAgain = false, false
		d.again(retry.Sub(d.now))
	}
}

// remapAt is when hosts are mapped again that the last job has left without a cell: after a failure
// soon, after a success that changed nothing ever later.
func (f Facts) remapAt() time.Time {
	switch {
	case !f.Mapping.Failed.IsZero():
		return f.Mapping.Failed.Add(jobRetry)
	case f.MappingRuns == 0: // the job was for other hosts
		return time.Time{}
	}
	return f.MappingEnded.Add(min(longestRemap, shortestRemap<<min(f.MappingRuns-1, 10)))
}

// Between jobs that map hosts to their cell, and succeed, while hosts are still without one.
const (
	shortestRemap = 30 * time.Second
	longestRemap  = 15 * time.Minute
)

// unmapped says that a node reports to Nova and is in no cell.
func (n NodeFacts) unmapped() bool { return n.Service != nil && n.Service.Up && !n.Mapped }

// batch says which nodes get another configuration now, and why the others wait.
func (d *decider) batch() {
	d.rolling = plan.Batch{Waits: map[string]string{}}
	if d.f.Trouble != nil || d.f.Database.Lost() {
		return
	}
	var hosts []plan.HostState
	for _, n := range d.f.Nodes {
		switch {
		case n.Desired == "", len(n.Others) > 0:
			continue
		case n.Stored == "" && !d.allProved():
			d.rolling.Waits[n.Name] = "it gets its configuration once all gates are passed"
			continue
		case n.Stored != n.Desired && d.f.UsersMissing != "":
			d.rolling.Waits[n.Name] = d.f.UsersMissing
			d.again(observePoll)
			continue
		case n.Stored != n.Desired && n.StoredRelease != d.f.Release && !d.allProved():
			d.rolling.Waits[n.Name] = "a new release reaches it once all gates are passed" // compute after control
			continue
		}
		problem := d.problem(n)
		hosts = append(hosts, plan.HostState{Name: n.Name, Desired: n.Desired, Stored: n.Stored, Given: n.Given, WasUp: n.WasUp, Current: n.Current,
			Up: problem == "", UpUnknown: d.f.NodesError != "", Problem: problem, Joining: n.Stored == "" || n.Registers && n.Service != nil,
			Cuts: n.Cuts, Guests: n.Guests})
	}
	waits := d.rolling.Waits
	d.rolling = plan.NextBatch(hosts, d.f.Disrupt, d.now)
	maps.Copy(d.rolling.Waits, waits)
	for _, h := range hosts {
		if slices.Contains(d.rolling.Go, h.Name) {
			d.configure = append(d.configure, NodeConfigure{Name: h.Name, Up: h.Up && !h.Joining})
		}
	}
}

// nodeMessage says why a node is not ready, in the order in which things depend on each other.
func (d *decider) nodeMessage(n NodeFacts) string {
	wait := d.rolling.Waits[n.Name]
	switch {
	case n.Desired == "":
		return "its configuration is not known; see the condition " + region.ConditionConfigured
	case len(n.Others) > 0:
		return fmt.Sprintf("it has compute services of OpenStack cluster %s, and guests of that may be on it; if the cluster is declared, it "+
			"releases the host when they are gone; else declare it again, or retire the host: regiond server retire %s", strings.Join(n.Others, ", "), n.Name)
	case wait != "" && n.Stored == n.Desired: // the change has failed on it
		return clip(wait)
	case wait != "":
		return clip("its configuration is to change: " + wait)
	case n.Stored != n.Desired:
		return "its configuration is about to change"
	}
	return clip(d.problem(n))
}

// problem says why a node does not run what is stored for it, or is not up with that.
func (d *decider) problem(n NodeFacts) string {
	switch {
	case n.Applied != n.Stored:
		if n.Configured == "" {
			return "its agent has not reported a configuration yet; see regiond status for the host"
		}
		return fmt.Sprintf("its agent runs the configuration %s, not yet %s: %s", short(n.Applied), short(n.Stored), n.Message)
	case n.Configured != string(metav1.ConditionTrue):
		return n.Message
	case d.f.NodesError != "":
		return d.f.NodesError
	case n.Service == nil:
		return "its nova-compute has not registered yet; on the host: journalctl -u nova-compute"
	case !n.Service.Up:
		return "its nova-compute does not report; on the host: journalctl -u nova-compute"
	case !n.Service.Enabled:
		return strings.TrimSuffix("its nova-compute is disabled: "+n.Service.Reason, ": ")
	case n.Service.Reported.Before(n.Started[service.NovaCompute]):
		return n.starting(service.NovaCompute)
	case !n.Mapped:
		return strings.TrimSuffix("it is being mapped to its cell: "+d.f.Mapping.Waiting, ": ")
	case len(n.Agents) == 0:
		return "no agent of Neutron has registered yet; on the host: journalctl -u neutron-openvswitch-agent"
	}
	for _, a := range n.Agents {
		if !a.Alive {
			return fmt.Sprintf("its %s does not report; on the host: journalctl -u %s", a.Binary, a.Binary)
		}
	}
	for _, binary := range slices.Sorted(maps.Keys(n.Started)) {
		reported := slices.ContainsFunc(n.Agents, func(a Agent) bool { return a.Binary == binary && !a.Reported.Before(n.Started[binary]) })
		if strings.HasPrefix(binary, agentPrefix) && !reported {
			return n.starting(binary)
		}
	}
	return ""
}

// agentPrefix is how the names of Neutron's agents begin.
const agentPrefix = "neutron-"

// starting says that a process has not reported since it was started. Nova and Neutron call it up for a minute after it ended, by
// what the one before reported, and would send it work.
func (n NodeFacts) starting(binary string) string {
	return fmt.Sprintf("its %s was started at %s and has not reported since; on the host: journalctl -u %s", binary,
		n.Started[binary].UTC().Format(time.TimeOnly), binary)
}

func short(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest[:min(len(digest), 12)]
}

func (d *decider) nodesCondition() metav1.Condition {
	const kind = region.ConditionNodes
	ready, first := 0, region.OpenStackNode{}
	for _, n := range d.nodeStates {
		switch {
		case n.Ready:
			ready++
		case first.Name == "":
			first = n
		}
	}
	total := len(d.nodeStates)
	switch {
	case total == 0:
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: region.ReasonNoNodes, Message: "no host is a compute host of this cluster"}
	case ready == total:
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: region.ReasonNodesReady, Message: fmt.Sprintf("%d of %d nodes are ready", ready,
			total)}
	}
	if failed := d.rolling.Failed; failed != "" {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: region.ReasonRolloutStopped,
			Message: fmt.Sprintf("host %s: %s", failed, d.rolling.Waits[failed])}
	}
	if drain := d.rolling.Drain; len(drain) > 0 && len(drain) == total-ready {
		return d.no(kind, region.ReasonWaitingForDrain, fmt.Sprintf("%d of %d nodes to have no guests", len(drain), total),
			fmt.Sprintf("%s first: %s", drain[0], d.rolling.Waits[drain[0]]))
	}
	reason := region.ReasonNodesNotReady
	if d.rolling.Moving > 0 {
		reason = region.ReasonNodesChanging
	}
	return d.no(kind, reason, fmt.Sprintf("%d of %d nodes", total-ready, total), fmt.Sprintf("%s first: %s", first.Name, first.Message))
}
