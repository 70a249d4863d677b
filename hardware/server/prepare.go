package server

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// prepare brings a server that is not installed to its installation, one phase a function. The BMC answers.
func (d *decider) prepare() {
	d.Phase, d.target = region.PhaseInspecting, &d.inspected
	if d.f.Status.Inventory != nil {
		d.Phase, d.target = region.PhaseInstalling, &d.installed
	}
	if refused := d.refusal(); refused != nil {
		d.refuse(refused)
		return
	}
	if d.stale(activePoll) {
		d.say(region.ReasonProbing, "waiting for the power state; nothing to do")
		return
	}
	b := d.boot
	switch {
	case d.f.BMC.Power == region.PowerOff:
		d.start()
	case d.want.Reinstallation != nil && b.requested.Before(d.want.Reinstallation.Accepted.Time):
		d.endOldSystem() // no boot was asked for since
	case !b.own(d.now):
		d.leaveAlone()
	case !b.reported.IsZero():
		d.followInstaller()
	case !b.answered.IsZero():
		d.followLoader()
	default:
		d.followFirmware()
	}
}

// say explains the wait by the condition that is to come true next.
func (d *decider) say(reason, message string) {
	*d.target = condition(d.target.Type, metav1.ConditionFalse, reason, message)
	if d.target == &d.inspected {
		d.installed.Reason, d.installed.Message = region.ReasonWaitingForInspection, message
	}
	d.ready = condition(region.ConditionReady, metav1.ConditionFalse, reason, message)
}

// refuse leaves a server whose plan is refused as it is, on or off.
func (d *decider) refuse(r *Refusal) {
	message := r.Message
	if d.want.Reinstallation != nil {
		message += "; without spec.reinstallAfter its old installation is used again"
	}
	d.installed = condition(region.ConditionInstalled, metav1.ConditionFalse, r.Reason, message)
	d.stop(region.PhaseFailed, r.Reason, message)
	d.stale(idlePoll)
}

// start asks for a network boot of the machine, which is off, not sooner than the back-off allows.
func (d *decider) start() {
	b, attempts := d.boot, d.boot.attempts
	if r := d.want.Spec.ReinstallAfter; r != nil && !r.After(d.now) && b.requested.Before(r.Time) {
		attempts = 0 // of an earlier job
	}
	timedOut := d.switchedOff()
	tried := fmt.Sprintf("it is tried again (attempt %d was the last)", attempts)
	switch {
	case attempts == 0 || b.requested.IsZero():
		d.say(region.ReasonNetbooting, "waiting for the machine to be powered on for a network boot; nothing to do")
	case b.stage == region.StageFailed:
		d.say(region.ReasonInstallerFailed, fmt.Sprintf("the installer failed at %s: %s; %s", stamp(b.reported), d.f.Status.Installation.Message, tried))
	case timedOut != nil:
		d.say(timedOut.Reason, timedOut.Message)
	case !b.reported.IsZero():
		d.say(region.ReasonPowerLost, fmt.Sprintf("the machine lost power in stage %s after %s; %s", b.stage, stamp(b.reported), tried))
	default:
		d.say(region.ReasonPowerLost, fmt.Sprintf("the machine is off although it was powered on for a network boot at %s; %s", stamp(b.requested), tried))
	}
	// A record from the future tells that the clock was set back: it is nothing to wait for.
	if at := b.last().Add(retryAfter(attempts)); attempts > 0 && d.now.Before(at) && !b.last().After(d.now) {
		d.again(at.Sub(d.now))
		return
	}
	if d.cloudRemembers() {
		return
	}
	d.Action = Netboot{Firmware: firmwareMode(d.want, d.f.Status.Inventory), Attempt: attempts + 1, ObservedOff: d.f.BMC.Time}
}

// switchedOff is what is said of a machine that regiond itself switched off because it waited for
// its boot in vain; it still holds while the machine is off. It is nil when that was said of an
// earlier boot, or of none.
func (d *decider) switchedOff() *metav1.Condition {
	c := meta.FindStatusCondition(d.f.Status.Conditions, region.ConditionReady)
	if c == nil || c.LastTransitionTime.Time.Before(d.boot.last()) || c.Reason != region.ReasonNetbootTimeout && c.Reason != region.ReasonInstallerSilent {
		return nil
	}
	return c
}

// leaveAlone what runs on the machine although regiond did not start it. It may be somebody's
// production: a BMC that was found in a range is not permission to end it, and neither is a profile
// that now fits, or a status that was lost.
func (d *decider) leaveAlone() {
	b := d.boot
	why := "it was on when it was found"
	switch {
	case b.elsewhere != "":
		why = fmt.Sprintf("the network boot that regiond asked for at %s was asked of the BMC at %s, which is not this server's any more", stamp(b.requested), b.elsewhere)
	case b.refused:
		why = "its installation was refused at " + stamp(b.reported) + ", and it is on"
	case !b.ended.IsZero():
		why = fmt.Sprintf("it was started by itself or by someone else after the network boot that regiond asked for at %s", stamp(b.requested))
	case !b.requested.IsZero():
		why = fmt.Sprintf("the network boot that regiond asked for at %s was last heard of at %s", stamp(b.requested), stamp(b.last()))
	}
	if takeover(d.want, d.now) {
		d.say(region.ReasonShuttingDown, fmt.Sprintf("waiting for the machine to shut down, since spec.takeoverUntil allows it until %s (%s); nothing to do",
			stamp(d.want.Spec.TakeoverUntil.Time), why))
		d.shutDown(region.ConsentTakeover, true)
		return
	}
	d.say(region.ReasonRunningUnknown, waiting("the running machine to be powered off", d.answeredSince(),
		why+", and regiond ends nothing that it did not start: power it off to have it inspected, or allow regiond to, by a time in spec.takeoverUntil"))
}

// followFirmware waits for the machine to ask for its script, and to be given the installer.
func (d *decider) followFirmware() {
	b := d.boot
	denied := d.denied()
	late := b.deadline(netbootDeadline(b.attempts), d.f.Listening)
	began := latest(b.requested, d.f.Listening)
	if d.now.Before(late) {
		do := "nothing to do"
		if d.f.Sighted.Last().After(began) {
			do = sighted(d.want, d.f, began)
		}
		d.say(region.ReasonWaitingForNetboot, waiting("the machine's network boot", b.requested, cmp.Or(denied, do)))
		d.again(late.Sub(d.now))
		return
	}
	d.say(region.ReasonNetbootTimeout, waiting("the machine's network boot", b.requested, cmp.Or(denied, fmt.Sprintf(
		"it has not asked regiond for its script in attempt %d: %s", b.attempts, sighted(d.want, d.f, began)))+"; it is tried again"))
	d.shutDown(region.ConsentOwnBoot, true) // firmware that found no network may have gone on to a disk
}

// denied says that, and why, the machine was told to boot its disk when it asked in this boot. It is empty when it has not asked.
func (d *decider) denied() string {
	n := d.f.Status.Netboot
	if n.LastSeen == nil || !n.LastSeen.After(n.Requested.Time) {
		return ""
	}
	because := "the reason has passed since"
	if job := NeedsJob(d.want, d.f, n.MACAddress, n.LastSeen.Time); !job.Needed {
		because = job.Because
	}
	return fmt.Sprintf("it asked for its script at %s from MAC address %s, and was told to boot its disk: %s", stamp(n.LastSeen.Time), n.MACAddress, because)
}

// followLoader waits for the installer's first report.
func (d *decider) followLoader() {
	b := d.boot
	late := b.deadline(loaderDeadline, d.f.Listening)
	if d.now.Before(late) {
		d.say(region.ReasonLoadingInstaller, waiting("the installer to start", b.answered, "nothing to do"))
		d.again(late.Sub(d.now))
		return
	}
	d.say(region.ReasonInstallerSilent, waiting("the installer's first report", b.answered,
		"the machine loaded the network boot loader and then fell silent: look at its console (driver of the NIC? memory?); it is tried again"))
	d.shutDown(region.ConsentOwnBoot, true)
}

// followInstaller waits for its next report.
func (d *decider) followInstaller() {
	b := d.boot
	late := b.deadline(installerDeadline, d.f.Listening)
	switch {
	case b.stage == region.StageFailed:
		d.say(region.ReasonInstallerFailed, fmt.Sprintf("the installer failed at %s: %s; it is tried again (attempt %d was the last)",
			stamp(b.reported), d.f.Status.Installation.Message, b.attempts))
		d.Action = PowerOff{Consent: region.ConsentOwnBoot}
	case !d.now.Before(late):
		d.say(region.ReasonInstallerSilent, waiting("a report of the installer", b.reported, "it is started again by itself; look at the console if this repeats"))
		if b.stage != region.StageWriting {
			d.shutDown(region.ConsentOwnBoot, true) // nothing was written yet: it may have gone on to the system on its disk
			return
		}
		d.Action = PowerOff{Consent: region.ConsentOwnBoot}
	default:
		do := "nothing to do"
		if i := d.f.Status.Installation; i != nil && i.Message != "" {
			do = i.Message
		}
		d.say(string(b.stage), waiting("the installer to finish stage "+string(b.stage), d.stageSince(d.target.Type, string(b.stage)), do))
		d.again(late.Sub(d.now))
	}
}

// refusal of the plan that follows from the newest inventory. An inventory from before the present
// network boot, or before the operator asked for a new installation, counts no more.
func (d *decider) refusal() *Refusal {
	inv, i := d.f.Status.Inventory, d.f.Status.Installation
	if inv == nil || i == nil || i.LastReport == nil || i.LastReport.Time.Before(d.boot.last()) {
		return nil
	}
	if r := d.want.Spec.ReinstallAfter; r != nil && !r.After(d.now) && i.LastReport.Time.Before(r.Time) {
		return nil
	}
	_, _, refused := Plan(d.want, inv, d.now)
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
