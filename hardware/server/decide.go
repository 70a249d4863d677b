package server

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// Decide says what to do next with one server, and how it stands. It is pure.
func Decide(want Desired, f Facts, now time.Time) Decision {
	d := &decider{want: want, f: f, now: now}
	d.Action = None{}
	d.run()
	d.summarise()
	return d.Decision
}

type decider struct {
	Decision
	want Desired
	f    Facts
	now  time.Time

	// boot is the last network boot that regiond asked for.
	boot boot

	bmc, inspected, installed, ready metav1.Condition
	// reinstallable is nil unless a reinstallation is asked for.
	reinstallable *metav1.Condition
	// target is the condition that is to come true next.
	target *metav1.Condition
}

func (d *decider) run() {
	var blocked, terminal bool
	d.bmc, blocked, terminal = bmcCondition(d.want, d.f)
	d.boot = lastBoot(d.want.Spec.BMC, d.f.Status)
	since, installed := installation(d.want, d.f, d.now)
	if d.boot.elsewhere != "" && !installed {
		d.InventoryOver, d.f.Status.Inventory = true, nil // a machine behind another BMC reported it
	}
	d.inspected = d.inspection()
	d.SeenOff = d.f.BMC.Outcome == OutcomeAnswered && d.f.BMC.made(d.want, d.f) && d.f.BMC.Power == region.PowerOff
	// The state from before the power-on is not among the observations any more: the order replaced it.
	d.BootEnded = (d.SeenOff || d.boot.elsewhere != "") && !d.boot.requested.IsZero() && d.boot.ended.IsZero()

	if len(d.f.Duplicates) > 0 {
		// Two matches are a fault, not a choice: neither is touched.
		d.bmc = condition(region.ConditionBMCReachable, metav1.ConditionFalse, region.ReasonDuplicateIdentity,
			fmt.Sprintf("this is the same machine as %s (same BMC address, system UUID or serial number); delete all but one of these servers", bounded.List(d.f.Duplicates, ", ")))
		d.installed = condition(region.ConditionInstalled, metav1.ConditionUnknown, region.ReasonDuplicateIdentity, d.bmc.Message)
		d.stop(region.PhaseFailed, region.ReasonDuplicateIdentity, d.bmc.Message)
		if d.f.BMC.Outcome != OutcomeAnswered || !d.f.BMC.made(d.want, d.f) {
			d.probeWhenDue() // an address was corrected: the BMC there may be another machine's
		}
		return
	}

	if d.want.Spec.Retired {
		d.retire(blocked)
		return
	}
	d.ReinstallationOver = d.f.Status.Reinstallation != nil && (installed || d.want.Reinstallation == nil)
	if installed {
		if reinstall(d.want, since, d.now) {
			d.proposeReinstallation(since, blocked)
			return
		}
		d.inService(since, blocked)
		return
	}
	// A younger host is that of the new system, which was installed although the end of that was not heard.
	d.Reinstalling = d.want.Reinstallation != nil && d.f.Host != nil && !d.f.Host.CreationTimestamp.After(d.want.Reinstallation.Accepted.Time)
	d.installed = condition(region.ConditionInstalled, metav1.ConditionFalse, region.ReasonNotInstalled, "waiting for the inspection; nothing to do")
	if blocked {
		phase := region.PhaseInstalling
		switch {
		case terminal:
			phase = region.PhaseFailed
		case !identified(d.f.Status.BMC):
			phase = region.PhaseDiscovered
		case d.f.Status.Inventory == nil:
			phase = region.PhaseInspecting
		}
		d.probeWhenDue()
		d.stop(phase, d.bmc.Reason, d.bmc.Message)
		return
	}
	if identified(d.f.Status.BMC) && MachineKeys(&region.Server{Spec: d.want.Spec, Status: d.f.Status}).None() {
		d.unrecognisable()
		return
	}
	d.prepare()
}

// unrecognisable leaves alone a machine that could not be told from others when it netboots.
func (d *decider) unrecognisable() {
	b := region.BMCStatus{}
	if d.f.Status.BMC != nil {
		b = *d.f.Status.BMC
	}
	message := fmt.Sprintf("the BMC tells neither a system UUID nor a serial number by which the machine could be recognised when it netboots (system UUID %q, serial number %q); "+
		`name the MAC address of its NIC: macAddresses of the server in region.yaml, or regiond kubectl patch server %s --type=merge -p '{"spec":{"macAddresses":["…"]}}'`,
		b.SystemUUID, b.SerialNumber, d.want.Name)
	d.inspected = condition(region.ConditionInspected, metav1.ConditionFalse, region.ReasonNoIdentity, message)
	d.stop(region.PhaseFailed, region.ReasonNoIdentity, message)
	d.stale(idlePoll)
}

// inService follows an installed server: its agent says whether it is ready, whatever the BMC does.
func (d *decider) inService(since time.Time, blocked bool) {
	d.Installed = true
	image := ""
	if i := d.f.Status.Installation; i != nil && i.Image != "" {
		image = " with image " + i.Image
	} else if d.f.Host != nil && d.f.Host.Status.Image != "" {
		image = " with image " + d.f.Host.Status.Image
	}
	when := ""
	if !since.IsZero() {
		when = " at " + stamp(since)
	}
	d.installed = condition(region.ConditionInstalled, metav1.ConditionTrue, region.ReasonInstalled, "installed"+when+image)

	// The first boot begins after the installer's last report, also when that was of an older installation.
	if i := d.f.Status.Installation; i != nil && i.LastReport != nil {
		since = latest(since, i.LastReport.Time)
	}
	v := viewHost(d.want, d.f, since, d.now)
	d.Phase, d.ready = v.phase, condition(region.ConditionReady, v.ready, v.reason, v.message)
	d.again(v.after)
	if r := d.want.Spec.ReinstallAfter; r != nil && r.After(d.now) {
		d.again(r.Sub(d.now))
	}

	if blocked {
		d.probeWhenDue()
		return
	}
	poll := idlePoll
	if !joined(d.want, d.f) {
		poll = activePoll
	}
	if d.stale(poll) {
		return
	}
	// Power was lost between the installation and its first boot. A host that has joined once is left off, since someone may be
	// working on it, unless it is to be always on.
	first := !joined(d.want, d.f) && d.f.BMC.Time.After(since)
	again := v.reason == region.ReasonPoweredOff && d.want.Spec.Power == region.PowerAlwaysOn
	if d.f.BMC.Power == region.PowerOff && (first || again) {
		d.Action = PowerOn{}
	}
}

// inspection says whether the machine itself was seen.
func (d *decider) inspection() metav1.Condition {
	inv := d.f.Status.Inventory
	if inv == nil {
		if _, installed := installation(d.want, d.f, d.now); installed {
			return condition(region.ConditionInspected, metav1.ConditionUnknown, region.ReasonInventoryLost, "the inventory was lost; the server is in service, so it will not be rebooted to collect it again: its agent reports it")
		}
		return condition(region.ConditionInspected, metav1.ConditionFalse, region.ReasonNotInspected, "waiting for the inventory, which the installer reports when the server netboots; nothing to do")
	}
	return condition(region.ConditionInspected, metav1.ConditionTrue, region.ReasonInspected,
		fmt.Sprintf("%s %s, %d CPUs, %s of memory, %d disks, %d NICs", inv.System.Manufacturer, inv.System.Product, inv.CPU.Threads, bytes(inv.MemoryBytes), len(inv.Disks), len(inv.NICs)))
}

// stop ends the decision with a server that is not ready.
func (d *decider) stop(phase region.ServerPhase, reason, message string) {
	d.Phase = phase
	d.ready = condition(region.ConditionReady, metav1.ConditionFalse, reason, message)
}

// again asks for a new decision after a while, if nothing else happens first.
func (d *decider) again(after time.Duration) {
	if after > 0 && (d.After == 0 || after < d.After) {
		d.After = after
	}
}

// probeWhenDue asks the BMC, at once if it never was, else when its back-off has passed. Without
// credentials it waits for them.
func (d *decider) probeWhenDue() {
	if d.f.CredentialsVersion == "" {
		return
	}
	due := d.f.BMC.NextTry
	if !d.f.BMC.made(d.want, d.f) {
		_, due = refusedBefore(d.want, d.f)
	}
	if !d.now.Before(due) {
		d.Action = Probe{}
		return
	}
	d.again(due.Sub(d.now))
}

// stale asks for a new observation of the BMC if the last one is older than poll.
func (d *decider) stale(poll time.Duration) bool {
	if !identified(d.f.Status.BMC) {
		poll = min(poll, activePoll) // the status was lost
	}
	due := d.f.BMC.Time.Add(poll)
	if d.now.Before(due) && d.f.BMC.Power != "" && d.f.BMC.Power != region.PowerUnknown {
		d.again(due.Sub(d.now))
		return false
	}
	if d.now.Before(due) { // the state is unknown: ask, but don't hammer
		d.again(due.Sub(d.now))
		return true
	}
	d.Action = Probe{}
	return true
}

func (d *decider) summarise() {
	d.Conditions = []metav1.Condition{d.bmc, d.inspected, d.installed, d.ready}
	if d.want.Undeclared {
		d.Conditions = append(d.Conditions, condition(ConditionDeclared, metav1.ConditionFalse, region.ReasonRemovedFromRegion,
			"the server is no longer in hardware.servers of region.yaml; it is kept until it is deleted: regiond kubectl delete server "+d.want.Name))
	}
	if d.reinstallable != nil {
		d.Conditions = append(d.Conditions, *d.reinstallable)
	}
	for i := range d.Conditions {
		d.Conditions[i].ObservedGeneration = d.want.Generation
	}
}

// Apply puts the decision into a status. Times change only where a status changed.
func (d Decision) Apply(s *region.ServerStatus, now time.Time) {
	s.Phase = d.Phase
	if d.BootEnded {
		s.Netboot.Ended = &metav1.Time{Time: now}
	}
	if d.InventoryOver {
		s.Inventory = nil
	}
	if d.SeenOff {
		s.Shutdown = nil
	}
	if d.ReinstallationOver {
		s.Reinstallation = nil
	}
	optional := []string{ConditionDeclared, ConditionReinstallable}
	for _, c := range d.Conditions {
		c.LastTransitionTime = metav1.NewTime(now)
		if old := meta.FindStatusCondition(s.Conditions, c.Type); old != nil && old.Status == c.Status && old.Reason != c.Reason {
			// 'since' in messages is taken from the transition time, so another reason starts again.
			meta.RemoveStatusCondition(&s.Conditions, c.Type)
		}
		meta.SetStatusCondition(&s.Conditions, c)
		optional = slices.DeleteFunc(optional, func(kind string) bool { return kind == c.Type })
	}
	for _, kind := range optional {
		meta.RemoveStatusCondition(&s.Conditions, kind)
	}
	sortConditions(s.Conditions)
}
