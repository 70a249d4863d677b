package server_test

import (
	"time"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// reinstallDecisions are about a system that is to be replaced.
func reinstallDecisions() []decision {
	return []decision{
		{name: "reinstallation asked for: guests are asked about first", power: region.PowerOn, with: reinstalling(server.GuestSurvey{}),
			action: server.Survey{}, phase: region.PhaseReady, kind: server.ConditionReinstallable, status: "False", reason: "Surveying"},
		{name: "reinstallation asked for, guests on it: in service", power: region.PowerOn, with: reinstalling(server.GuestSurvey{Time: now, Refusal: "2 instances are on s1"}),
			action: server.None{}, phase: region.PhaseReady, kind: server.ConditionReinstallable, status: "False", reason: "GuestsOnHost", message: "2 instances are on s1"},
		{name: "reinstallation asked for, guests were on it a minute ago: asked again", power: region.PowerOn, with: reinstalling(server.GuestSurvey{Time: now.Add(-time.Minute), Refusal: "2 instances"}),
			action: server.Survey{}, phase: region.PhaseReady, kind: region.ConditionReady, status: "True", reason: "HostHealthy"},
		{name: "reinstallation asked for, no guests: accepted, nothing is ended yet", power: region.PowerOn, with: reinstalling(server.GuestSurvey{Time: now}),
			action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "ShuttingDown"},
		{name: "reinstallation asked for, no guests half a minute ago: asked again", power: region.PowerOn, with: reinstalling(server.GuestSurvey{Time: now.Add(-30 * time.Second)}),
			action: server.Survey{}, phase: region.PhaseReady, kind: server.ConditionReinstallable, status: "False", reason: "Surveying"},
		{name: "reinstallation asked for, off before its first boot: not powered on, guests are asked about", power: region.PowerOff, with: neverBooted(server.GuestSurvey{}),
			action: server.Survey{}, phase: region.PhaseBooting, kind: server.ConditionReinstallable, status: "False", reason: "Surveying"},
		{name: "reinstallation asked for, off before its first boot, no guests: accepted", power: region.PowerOff, with: neverBooted(server.GuestSurvey{Time: now}),
			action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False"},
		{name: "reinstallation asked for, off before its first boot, refused: in service, so powered on", power: region.PowerOff, with: neverBooted(server.GuestSurvey{Time: now, Refusal: "2 instances are on s1"}),
			action: server.PowerOn{}, phase: region.PhaseBooting, kind: server.ConditionReinstallable, status: "False", reason: "GuestsOnHost"},
		{name: "reinstallation asked for, off, always on: not powered on", power: region.PowerOff, with: offAlwaysOn(server.GuestSurvey{Time: now}),
			action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False"},
		{name: "reinstallation asked for, off, always on, guests on it: powered on", power: region.PowerOff, with: offAlwaysOn(server.GuestSurvey{Time: now, Refusal: "2 instances are on s1"}),
			action: server.PowerOn{}, phase: region.PhaseNotReady, kind: server.ConditionReinstallable, status: "False", reason: "GuestsOnHost"},
		{name: "reinstallation accepted: asked to shut down", power: region.PowerOn, with: accepted(0),
			action: server.ShutDown{Consent: region.ConsentReinstall}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},
		{name: "reinstallation accepted, does not shut down: not cut", power: region.PowerOn, with: accepted(3 * time.Minute),
			action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown", message: "spec.takeoverUntil"},
		{name: "reinstallation accepted, does not shut down, takeover allowed: asked by that consent", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			accepted(3*time.Minute)(w, f)
			w.Spec.TakeoverUntil = ago(-time.Hour)
		}, action: server.ShutDown{Consent: region.ConsentTakeover}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},
		{name: "reinstallation accepted, off: netboot", power: region.PowerOff, with: accepted(3 * time.Minute),
			action: netboot, phase: region.PhaseInspecting, kind: region.ConditionInstalled, status: "False"},
		{name: "reinstallation accepted, and then not asked for any more", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			accepted(3*time.Minute)(w, f)
			w.Spec.ReinstallAfter, w.Reinstallation = nil, nil
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionInstalled, status: "True", reason: "Installed"},
		{name: "reinstallation asked for before the last", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			w.Spec.ReinstallAfter = ago(2 * time.Hour)
		}, action: server.None{}, phase: region.PhaseReady, kind: region.ConditionInstalled, status: "True"},
		{name: "reinstallation in the future", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			w.Spec.ReinstallAfter = ago(-time.Minute)
		}, action: server.None{}, phase: region.PhaseReady, kind: region.ConditionInstalled, status: "True"},
		{name: "reinstallation while status and host objects are from before", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 2*time.Minute)(w, f)
			w.Spec.ReinstallAfter = ago(time.Minute)
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(3 * time.Hour), LastSeen: ago(3 * time.Hour), Attempts: 4}
			w.Reinstallation = &region.ReinstallationStatus{After: *w.Spec.ReinstallAfter, Accepted: *ago(time.Minute)}
		}, action: netboot, phase: region.PhaseInspecting, kind: region.ConditionInstalled, status: "False"},
	}
}

// reinstalling is an installed server that is to be installed again.
func reinstalling(survey server.GuestSurvey) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		alive("True", 5*time.Second)(w, f)
		w.Spec.ReinstallAfter, f.Survey = ago(time.Minute), survey
	}
}

// neverBooted is a server that lost power after its installation, and is to be installed again.
func neverBooted(survey server.GuestSurvey) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Installation = &region.InstallationStatus{Stage: region.StageInstalled, Finished: ago(10 * time.Minute), LastReport: ago(10 * time.Minute)}
		w.Spec.ReinstallAfter, f.Survey = ago(time.Minute), survey
	}
}

// offAlwaysOn is a host that is off, is to be always on, and is to be installed again.
func offAlwaysOn(survey server.GuestSurvey) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		reinstalling(survey)(w, f)
		f.Heartbeat, w.Spec.Power = now.Add(-24*time.Hour), region.PowerAlwaysOn
	}
}

// accepted is a server whose reinstallation was accepted, and whose system was asked to shut down a while ago.
func accepted(shutdown time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		reinstalling(server.GuestSurvey{})(w, f)
		f.Host = nil
		w.Spec.ReinstallAfter = ago(10 * time.Minute)
		w.Reinstallation = &region.ReinstallationStatus{After: *w.Spec.ReinstallAfter, Accepted: *ago(4 * time.Minute)}
		f.Status.Reinstallation = w.Reinstallation
		if shutdown > 0 {
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(shutdown), Consent: region.ConsentReinstall}
		}
	}
}
