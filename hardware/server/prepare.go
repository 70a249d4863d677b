package server

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// progress is how far the present attempt to netboot and install got, by the times of what was seen.
type progress struct {
	requested, seen, reported time.Time
	stage                     region.InstallStage
	attempts                  int32
}

// observedProgress reads the status, leaving out what belongs to a job before the present one.
func observedProgress(w Wish, f Facts, now time.Time) (p progress) {
	since := time.Time{}
	if r := w.Spec.ReinstallAfter; r != nil && !r.After(now) {
		since = r.Time
	}
	of := func(t *metav1.Time) time.Time {
		if t == nil || t.Time.Before(since) {
			return time.Time{}
		}
		return t.Time
	}
	if n := f.Status.Netboot; n != nil {
		p.requested, p.seen = of(n.Requested), of(n.LastSeen)
		if !p.requested.IsZero() {
			p.attempts = n.Attempts
		}
	}
	if i := f.Status.Installation; i != nil {
		if p.reported = of(i.LastReport); !p.reported.IsZero() {
			p.stage = i.Stage
		}
	}
	return p
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// prepare brings a server that is not installed to its installation. The BMC answers.
func (d *decider) prepare() {
	p := observedProgress(d.w, d.f, d.now)
	d.Phase = region.PhaseInspecting
	target := &d.inspected
	if d.f.Status.Inventory != nil {
		d.Phase, target = region.PhaseInstalling, &d.installed
	}
	say := func(reason, message string) {
		*target = condition(target.Type, metav1.ConditionFalse, reason, message)
		if target == &d.inspected {
			d.installed.Reason, d.installed.Message = "WaitingForInspection", message
		}
		d.ready = condition(region.ConditionReady, metav1.ConditionFalse, reason, message)
	}

	if refused := d.refusal(p); refused != nil {
		d.installed = condition(region.ConditionInstalled, metav1.ConditionFalse, refused.Reason, refused.Message)
		d.stop(region.PhaseFailed, refused.Reason, refused.Message)
		d.stale(idlePoll)
		return
	}
	if d.stale(activePoll) {
		say("Probing", "waiting for the power state; nothing to do")
		return
	}
	off := d.f.BMC.Power == region.PowerOff

	last := latest(latest(p.requested, p.seen), p.reported)
	// Times in the status are whole seconds.
	lost := off && d.f.BMC.Time.After(last.Add(time.Second))
	switch {
	case last.IsZero() && off:
		say("Netbooting", "waiting for the machine to be powered on for a network boot; nothing to do")
		d.Action = Netboot{Firmware: firmwareMode(d.w, d.f.Status.Inventory), Attempt: p.attempts + 1}

	case last.IsZero():
		// The machine runs and nothing is known of it. It may be somebody's production: a BMC that was found
		// in a range is no permission to cut its power, and neither is a status that was lost. If it has no
		// system it netboots by itself before long, and is inspected then.
		if r := d.w.Spec.ReinstallAfter; r != nil && !r.After(d.now) {
			say("PoweringOff", "waiting for the machine to be powered off, since spec.reinstallAfter asks for an installation; nothing to do")
			d.Action = PowerOff{}
			return
		}
		say("RunningUnknown", waiting("the running machine to netboot, to be powered off, or to be heard of", d.answeredSince(),
			"it was on when it was found, and regiond leaves alone what it did not start: power it off to have it inspected"))

	case p.reported.Equal(last):
		late := latest(p.reported, d.f.Listening).Add(installerDeadline)
		switch {
		case p.stage == region.StageFailed:
			say("InstallerFailed", fmt.Sprintf("the installer failed at %s: %s; it is tried again (attempt %d was the last)", stamp(p.reported), d.f.Status.Installation.Message, p.attempts))
			d.retry(p, p.reported, off)
		case lost:
			say("PowerLost", fmt.Sprintf("the machine lost power in stage %s after %s; it is installed again by itself", p.stage, stamp(p.reported)))
			d.retry(p, p.requested, off)
		case !d.now.Before(late):
			say("InstallerSilent", waiting("a report of the installer", p.reported, "it is started again by itself; look at the console if this repeats"))
			d.retry(p, p.requested, off)
		default:
			do := "nothing to do"
			if m := d.f.Status.Installation.Message; m != "" {
				do = m
			}
			say(string(p.stage), waiting("the installer to finish stage "+string(p.stage), d.stageSince(target.Type, string(p.stage)), do))
			d.again(late.Sub(d.now))
		}

	case p.seen.Equal(last):
		late := latest(p.seen, d.f.Listening).Add(loaderDeadline)
		switch {
		case lost:
			say("PowerLost", fmt.Sprintf("the machine lost power after its network boot at %s; it is started again by itself", stamp(p.seen)))
			d.retry(p, p.requested, off)
		case !d.now.Before(late):
			say("InstallerSilent", waiting("the installer's first report", p.seen, "the machine loaded the network boot loader and then fell silent: look at its console (driver of the NIC? memory?); it is tried again"))
			d.retry(p, p.seen, off)
		default:
			say("LoadingInstaller", waiting("the installer to start", p.seen, "nothing to do"))
			d.again(late.Sub(d.now))
		}

	default:
		late := latest(p.requested, d.f.Listening).Add(netbootDeadline(p.attempts))
		switch {
		case lost:
			say("PowerLost", fmt.Sprintf("the machine is off although it was powered on for a network boot at %s; it is tried again (attempt %d was the last)", stamp(p.requested), p.attempts))
			d.retry(p, p.requested, off)
		case !d.now.Before(late):
			say("NetbootTimeout", waiting("the machine's network boot", p.requested, fmt.Sprintf("no DHCP request of it was seen in attempt %d: check the cabling of the provisioning network, set the switch port to edge port (STP) and LACP fallback, and enable PXE in the firmware; it is tried again", p.attempts)))
			d.retry(p, p.requested, off)
		default:
			say("WaitingForNetboot", waiting("the machine's network boot", p.requested, "nothing to do"))
			d.again(late.Sub(d.now))
		}
	}
}

// retry starts the network boot again: power off first (the override must be set with the machine
// off), then not sooner than the back-off after the given time.
func (d *decider) retry(p progress, from time.Time, off bool) {
	if !off {
		d.Action = PowerOff{}
		return
	}
	if at := from.Add(retryAfter(p.attempts)); d.now.Before(at) {
		d.again(at.Sub(d.now))
		return
	}
	d.Action = Netboot{Firmware: firmwareMode(d.w, d.f.Status.Inventory), Attempt: p.attempts + 1}
}

// refusal of the plan that follows from the newest inventory. An inventory from before the present
// network boot, or before the operator asked for a new installation, counts no more.
func (d *decider) refusal(p progress) *Refusal {
	inv := d.f.Status.Inventory
	if inv == nil || p.reported.Before(latest(p.seen, p.requested)) {
		return nil
	}
	if r := d.w.Spec.ReinstallAfter; p.reported.IsZero() && r != nil && !r.After(d.now) {
		return nil
	}
	_, _, refused := Plan(d.w, inv, d.now)
	return refused
}

// answeredSince is when the BMC first answered.
func (d *decider) answeredSince() time.Time {
	if c := meta.FindStatusCondition(d.f.Status.Conditions, region.ConditionBMCReachable); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return d.now
}

// stageSince is when the condition took the present reason.
func (d *decider) stageSince(kind, reason string) time.Time {
	if c := meta.FindStatusCondition(d.f.Status.Conditions, kind); c != nil && c.Reason == reason {
		return c.LastTransitionTime.Time
	}
	return d.now
}
