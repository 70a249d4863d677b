package server

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// ConditionReinstallable is there while a reinstallation is asked for: False while it waits for guests to leave.
const ConditionReinstallable = "Reinstallable"

// proposeReinstallation follows an installed server that is to be installed again. It stays in service until it was shown that no
// guest is on it: with the acceptance the rights of its system end.
func (d *decider) proposeReinstallation(since time.Time, blocked bool) {
	d.inService(since, blocked)
	say := func(reason, message string) {
		c := condition(ConditionReinstallable, metav1.ConditionFalse, reason, message)
		d.reinstallable = &c
	}
	do := "nothing to do"
	if blocked {
		say(d.bmc.Reason, "waiting for the BMC, before the server is installed again: "+d.bmc.Message)
		return
	}
	// A server that is off is as an installation needs it: it is powered on only if it stays in service.
	stays := d.Action
	switch stays.(type) {
	case None, PowerOn:
		d.Action = None{}
	default:
		say(region.ReasonSurveying, waiting("the power state, before the server is installed again", time.Time{}, do))
		return
	}
	s := d.f.Survey
	age := d.now.Sub(s.Time)
	switch {
	case s.Time.IsZero(), age < 0, s.Refusal == "" && age >= surveyLife, s.Refusal != "" && age >= surveyEvery:
		say(region.ReasonSurveying, waiting("the answer whether guests are on the host, before it is installed again", time.Time{}, do))
		d.Action = Survey{}
	case s.Refusal != "":
		say(region.ReasonGuestsOnHost, fmt.Sprintf("it is not installed again as spec.reinstallAfter asks: %s; this is asked again every %s", s.Refusal, surveyEvery))
		d.Action = stays
		d.again(surveyEvery - age)
	default:
		d.accept()
	}
}

// accept ends the present system: its rights first, then it is asked to shut down.
func (d *decider) accept() {
	const message = "the server is installed again, since spec.reinstallAfter asks for it and no guest is on it; nothing to do"
	d.Accepted, d.Installed = true, false
	d.installed = condition(region.ConditionInstalled, metav1.ConditionFalse, region.ReasonShuttingDown, message)
	d.stop(region.PhaseInstalling, region.ReasonShuttingDown, message)
	d.again(time.Second)
}

// endOldSystem waits for the system that is to be replaced to shut down. Its power is cut only by a consent that says so.
func (d *decider) endOldSystem() {
	cut := takeover(d.want, d.now)
	do := "nothing to do"
	if !cut {
		do = "if it does not, power it off, or allow regiond to cut its power, by a time in spec.takeoverUntil"
	}
	d.say(region.ReasonShuttingDown, waiting("the old system to shut down, since the server is installed again", d.want.Reinstallation.Accepted.Time, do))
	if cut {
		d.shutDown(region.ConsentTakeover, true)
		return
	}
	d.shutDown(region.ConsentReinstall, false)
}

// cloudRemembers says whether the cloud has just failed to forget the old system, which must be
// done before another is installed. It is asked again after a while.
func (d *decider) cloudRemembers() bool {
	s := d.f.Survey
	age := d.now.Sub(s.Time)
	if d.want.Reinstallation == nil || s.Refusal == "" || age < 0 || age >= surveyEvery {
		return false
	}
	d.say(region.ReasonOldSystemRemains, fmt.Sprintf("waiting for the cloud to forget the old system, before another is installed; it is asked again every %s (%s)", surveyEvery, s.Refusal))
	d.again(surveyEvery - age)
	return true
}
