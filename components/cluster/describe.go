package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/condition"
)

// describe makes conditions and services of what was decided.
func (d *decider) describe() {
	var conditions []metav1.Condition
	first := "" // condition that is not true
	add := func(c metav1.Condition) {
		c.ObservedGeneration = d.f.Generation
		if c.Status != metav1.ConditionTrue && first == "" {
			first = c.Type + ": " + c.Message
		}
		conditions = append(conditions, c)
	}
	configured := d.configured()
	earlier := ""
	if configured.Status != metav1.ConditionTrue && configured.Reason != region.ReasonRollingOut {
		first = configured.Type + ": " + configured.Message // what stops everything is told before what it stops
	}
	for _, gate := range region.Gates {
		c := d.gate(gate)
		if earlier != "" && c.Status == metav1.ConditionTrue {
			// Proved by itself, but conditions are passed in order.
			c = d.no(gate, region.ReasonEarlierGate, "the gate "+earlier, "nothing to do, this one is proved already")
		}
		if c.Status != metav1.ConditionTrue && earlier == "" {
			earlier = gate
		}
		add(c)
	}
	add(configured)
	add(d.nodesCondition())
	ready := metav1.Condition{Type: region.ConditionReady, Status: metav1.ConditionTrue, Reason: region.ReasonClusterReady,
		Message: "all gates are passed and all nodes are ready"}
	if first != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, region.ReasonClusterNotReady, first
	}
	add(ready)
	d.conditions = conditions
	for _, w := range d.f.Workloads {
		if w.Job {
			continue
		}
		message := w.Waiting
		if !w.Present {
			message = d.unapplied(w)
		}
		d.services = append(d.services, region.OpenStackService{Name: w.Name, Version: w.Version, Ready: w.done(), Message: message})
	}
	slices.SortFunc(d.services, func(a, b region.OpenStackService) int { return strings.Compare(a.Name, b.Name) })
}

// no is a condition that is not true: what is awaited since when, and what to do about it.
func (d *decider) no(kind, reason, what, do string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf("waiting for %s since %s; %s", what,
		stamp(d.since(kind, reason)), do)}
}

// since is when a condition got its reason.
func (d *decider) since(kind, reason string) time.Time {
	if c := meta.FindStatusCondition(d.f.Status.Conditions, kind); c != nil && c.Reason == reason {
		return c.LastTransitionTime.Time
	}
	return d.now
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (d *decider) configured() metav1.Condition {
	const kind = region.ConditionConfigured
	switch disk := d.f.Disk; {
	case d.f.Trouble != nil:
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: d.f.Trouble.Reason, Message: d.f.Trouble.Message}
	case d.f.Refused != nil:
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: d.f.Refused.Reason, Message: d.f.Refused.Message}
	case d.f.Database.Lost():
		return d.no(kind, region.ReasonDatabaseMissing, "the database of the cluster in "+d.f.Database.Folder, d.f.Database.remedy(d.f.Name))
	case disk.full():
		return d.no(kind, region.ReasonDiskFull, fmt.Sprintf("free space on the disk of %s, which has %s of %s left and needs %s", disk.Path, bytes(disk.Free),
			bytes(disk.Size), bytes(disk.least())),
			"make space or grow the disk; nothing is rolled out until then, and it continues by itself")
	}
	for _, w := range d.f.Workloads {
		if !w.done() {
			c := d.no(kind, region.ReasonRollingOut, w.Name+" to be rolled out", d.unrolled(w))
			if d.f.Store != nil {
				c.Message += "; " + d.f.Store.Message
			}
			return c
		}
	}
	reason, message := region.ReasonApplied, "the configuration was rendered and applied"
	if d.f.Store != nil {
		reason, message = d.f.Store.Reason, message+"; "+d.f.Store.Message
	}
	if warnings := append(blockedTunnels(d.f.Nodes), d.f.Warnings...); len(warnings) > 0 {
		message += "; " + strings.Join(warnings, "; ")
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: clip(message)}
}

// remedy for a database that was lost.
func (d Database) remedy(cluster string) string {
	since := "services have used it"
	if d.Created != "" {
		since = "it was created at " + d.Created
	}
	return fmt.Sprintf("%s, and an empty one is not made in its place: mount its disk, or restore the folder from a backup; to discard all "+
		"of its data and begin with an empty cloud and new passwords: regiond kubectl delete namespace %s", since, openstack.Namespace(cluster))
}

func (d *decider) unrolled(w Workload) string {
	switch {
	case !w.Present:
		return d.unapplied(w)
	case w.Waiting != "":
		return clip(w.Waiting)
	}
	return "nothing to do"
}

// unapplied says what keeps a workload from being applied.
func (d *decider) unapplied(w Workload) string {
	if w.Job {
		if !d.proved(region.ConditionMariaDB) {
			return "it starts once the gate " + region.ConditionMariaDB + " is proved"
		}
		if other := d.supersededBy(w.Gate); other != "" {
			return "it starts when the job " + other + " of an earlier declaration has ended"
		}
		return fmt.Sprintf("it starts when fewer than %d others run", jobsAtOnce)
	}
	if n := d.unmet(w.Gate); n != "" {
		return "it is applied once the gate " + n + " is proved"
	}
	if !d.jobsDone(w.Gate) {
		return "it is applied once its schema is there"
	}
	return "it is about to be applied"
}

func (d *decider) gate(gate string) metav1.Condition {
	for _, w := range d.f.Workloads {
		switch {
		case w.Gate != gate || w.done():
			continue
		case w.Job && !w.Failed.IsZero():
			return d.no(gate, region.ReasonSchemaJobFailed, "the job "+w.Name, fmt.Sprintf("Kubernetes has stopped retrying it (%s); it is started again at %s", clip(w.Waiting),
				stamp(w.Failed.Add(jobRetry))))
		case w.Job && !w.Present && !d.proved(region.ConditionMariaDB):
			return d.no(gate, region.ReasonEarlierGate, "the gate "+region.ConditionMariaDB, "nothing to do")
		case w.Job && !w.Present:
			return d.no(gate, region.ReasonStarting, "the job "+w.Name, d.unapplied(w))
		case !w.Present:
			return d.no(gate, region.ReasonStarting, w.Name, d.unapplied(w))
		}
		return d.no(gate, region.ReasonStarting, w.Name, clip(w.Waiting))
	}
	p, probed := d.f.Probes[gate]
	switch {
	case !d.rolledOut(gate):
		return d.no(gate, region.ReasonStarting, "its workloads", "they are known once the configuration is; see the condition "+region.ConditionConfigured)
	case !probed && d.f.Unreachable != "":
		return d.no(gate, region.ReasonFirstProbe, "the first proof", d.f.Unreachable)
	case !probed:
		if n := d.unmet(gate); n != "" {
			return d.no(gate, region.ReasonEarlierGate, "the gate "+n, "nothing to do")
		}
		return d.no(gate, region.ReasonFirstProbe, "the first proof", "nothing to do")
	case p.Terminal:
		return metav1.Condition{Type: gate, Status: metav1.ConditionFalse, Reason: region.ReasonProbeFailed, Message: clip(p.Err)}
	case p.Err != "":
		return d.no(gate, region.ReasonProbeFailed, "a proof, which is tried again every few seconds", clip(p.Err))
	}
	return metav1.Condition{Type: gate, Status: metav1.ConditionTrue, Reason: region.ReasonProved, Message: service.Of(gate).Proof}
}

// clip keeps a message within what fits a table; Kubernetes allows 32 KiB for one.
func clip(s string) string {
	const longest = 600
	return condition.Clip(strings.Join(strings.Fields(s), " "), longest)
}

// bytes in words, to a tenth.
func bytes(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// applyConditions puts conditions into a status. Times change only where a status or a reason changed.
func applyConditions(s *region.OpenStackClusterStatus, conditions []metav1.Condition, now time.Time) {
	for _, c := range conditions {
		c.LastTransitionTime = metav1.NewTime(now)
		if old := meta.FindStatusCondition(s.Conditions, c.Type); old != nil && old.Status == c.Status && old.Reason != c.Reason {
			meta.RemoveStatusCondition(&s.Conditions, c.Type) // 'since' in messages is the time of the reason
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	order := map[string]int{}
	for i, c := range conditions {
		order[c.Type] = i
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { _, known := order[c.Type]; return !known })
	slices.SortStableFunc(s.Conditions, func(a, b metav1.Condition) int { return order[a.Type] - order[b.Type] })
}
