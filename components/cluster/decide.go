package cluster

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
)

// How often is looked at what.
const (
	// settledPoll is the age at which the proof of a gate is renewed, together with those that are not much younger.
	settledPoll  = 3 * time.Minute
	settledEarly = time.Minute
	// floor is the least time between two reconciliations of a cluster, whatever asks for them.
	floor = 250 * time.Millisecond
	// failedPoll is the time between attempts at a gate that is not passed, after a few that follow each other faster.
	failedPoll = 5 * time.Second
	// terminalPoll is that for what someone has to repair.
	terminalPoll = time.Minute
	// observePoll is the time between looks at a cluster in which something is awaited.
	observePoll = 3 * time.Second
	// jobRetry is the time from the end of a failed job to the next attempt.
	jobRetry = time.Minute
	// jobsAtOnce: schema migrations are bound by the processor.
	jobsAtOnce = 2
)

// Decision is what follows from facts.
type Decision struct {
	// End these jobs, of an earlier declaration.
	End []string
	// Apply parts, in order.
	Apply []Part
	// Probe these gates.
	Probe []string
	// Configure writes the configuration of these nodes.
	Configure []NodeConfigure
	// Map starts the job that maps hosts to their cell; MapAgain removes one that has ended first.
	Map, MapAgain bool
	// Leave takes steps of hosts that leave the cluster.
	Leave []Leave
	// Prune what is no longer desired.
	Prune bool
	// Record that there is a database now. It comes before anything is written into it.
	Record bool
	// Fernet is what to do with Keystone's keys.
	Fernet FernetStep

	Conditions []metav1.Condition
	Services   []region.OpenStackService
	Nodes      []region.OpenStackNode
	FernetKeys *region.OpenStackFernetKeys
	// After is when to look again if nothing happens first.
	After time.Duration
}

// NodeConfigure is a node that gets its configuration now.
type NodeConfigure struct {
	Name string
	// Up: the node is up now, so that it proves something when it is up with the new configuration.
	Up bool
}

// Decide says what to do next with a cluster, and how it stands. It is pure.
func Decide(f Facts, now time.Time) Decision {
	d := &decider{f: f, now: now, After: settledPoll}
	d.rollout()
	d.probes()
	d.nodes()
	d.leaving()
	if d.f.Store != nil {
		d.again(terminalPoll)
	}
	d.fernet()
	d.describe()
	return Decision{End: d.end, Apply: d.apply, Probe: d.probe, Configure: d.configure, Leave: d.leave, Map: d.mapHosts, MapAgain: d.mapAgain, Prune: d.prune,
		Record:     d.f.Database.Created == "" && d.f.Database.There && d.proved(region.ConditionMariaDB),
		Conditions: d.conditions, Services: d.services, Nodes: d.nodeStates, Fernet: d.fernetStep, FernetKeys: d.fernetKeys, After: d.After}
}

type decider struct {
	f   Facts
	now time.Time

	apply              []Part
	end                []string
	probe              []string
	configure          []NodeConfigure
	rolling            plan.Batch
	mapHosts, mapAgain bool
	prune              bool
	leave              []Leave
	conditions         []metav1.Condition
	services           []region.OpenStackService
	nodeStates         []region.OpenStackNode
	fernetStep         FernetStep
	fernetKeys         *region.OpenStackFernetKeys
	After              time.Duration
}

// retryAfter is the time to the next attempt at a gate after failures in a row: what was just
// started often answers a second later.
func retryAfter(failures int) time.Duration {
	if failures < 1 || failures > 3 {
		return failedPoll
	}
	return min(failedPoll, time.Second<<(failures-1))
}

func (d *decider) again(after time.Duration) { d.After = max(min(d.After, after), 0) }

// proved says that a gate's services are rolled out as desired and were seen to work since.
func (d *decider) proved(gate string) bool {
	p, probed := d.f.Probes[gate]
	return d.rolledOut(gate) && probed && p.Err == ""
}

// unmet is the first gate that a gate needs and that is not proved; empty if there is none.
func (d *decider) unmet(gate string) string {
	for _, n := range service.Of(gate).Needs {
		if !d.proved(n) {
			return n
		}
	}
	return ""
}

func (d *decider) allProved() bool {
	return !slices.ContainsFunc(region.Gates, func(g string) bool { return !d.proved(g) })
}

// rolledOut says that all workloads of a gate are as desired and ready.
func (d *decider) rolledOut(gate string) bool {
	some := false
	for _, w := range d.f.Workloads {
		if w.Gate != gate {
			continue
		}
		if some = true; !w.done() {
			return false
		}
	}
	return some
}

func (d *decider) jobsDone(gate string) bool {
	return !slices.ContainsFunc(d.f.Workloads, func(w Workload) bool { return w.Gate == gate && w.Job && !w.done() })
}

// rollout says what may be applied now. What is there already is applied again: that repairs drift, and writes nothing where
// there is none.
func (d *decider) rollout() {
	if d.f.Trouble != nil || d.f.Disk.full() || d.f.Database.Lost() {
		d.again(failedPoll)
		return
	}
	d.apply = append(d.apply, Part{})
	running := 0
	for _, s := range d.f.Superseded {
		running++
		if !s.Ending {
			d.end = append(d.end, s.Name)
		}
		d.again(observePoll)
	}
	for _, w := range d.f.Workloads {
		if w.active() {
			running++
		}
	}
	if d.proved(region.ConditionMariaDB) {
		for _, s := range service.Schemas() {
			gate := s.Gate
			for _, w := range d.f.Workloads {
				if w.Gate != gate || !w.Job || w.done() || w.active() || d.supersededBy(gate) != "" {
					continue
				}
				if retry := w.Failed.Add(jobRetry); !w.Failed.IsZero() && d.now.Before(retry) {
					d.again(retry.Sub(d.now))
					continue
				}
				if running++; running > jobsAtOnce {
					continue
				}
				d.apply = append(d.apply, Part{Gate: gate, Job: w.Name})
			}
		}
	}
	complete := true
	for _, gate := range region.Gates {
		ready := d.jobsDone(gate)
		if ready && d.unmet(gate) == "" {
			d.apply = append(d.apply, Part{Gate: gate})
		}
		complete = complete && d.rolledOut(gate)
	}
	d.prune = complete
	if !complete {
		d.again(observePoll)
	}
}

// probes says which gates are to be probed: when what they are proved by has changed, when the last
// attempt failed, and now and then. Services are asked once those that they need were proved, or
// else each of them would tell of the same fault.
func (d *decider) probes() {
	if d.f.Unreachable != "" {
		d.again(failedPoll)
		return
	}
	var early []string // gates whose proof is renewed if another one's is
	for _, gate := range region.Gates {
		if !d.rolledOut(gate) || d.unmet(gate) != "" {
			continue
		}
		due := d.now
		if p, probed := d.f.Probes[gate]; probed {
			switch {
			case p.Terminal:
				due = p.Time.Add(terminalPoll)
			case p.Err != "":
				due = p.Time.Add(retryAfter(p.Failures))
			default:
				due = p.Time.Add(settledPoll)
			}
		}
		if !d.now.Before(due) {
			d.probe = append(d.probe, gate)
			continue
		}
		if p := d.f.Probes[gate]; p.Err == "" && !d.now.Before(due.Add(-settledEarly)) {
			early = append(early, gate)
		}
		d.again(due.Sub(d.now))
	}
	if len(d.probe) > 0 {
		d.probe = append(d.probe, early...)
	}
}
