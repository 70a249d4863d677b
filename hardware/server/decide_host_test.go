package server_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// installed is an installation of which no agent has been heard.
var installed = &region.InstallationStatus{Stage: region.StageInstalled, Finished: ago(10 * time.Minute), LastReport: ago(10 * time.Minute), Image: "trixie-1"}

// hostDecisions are about an installed system, in service or retired.
func hostDecisions() []decision {
	return []decision{
		{name: "retired while it is on", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", time.Second)(w, f)
			w.Spec.Retired = true
		}, action: server.ShutDown{Consent: region.ConsentRetired}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "Retiring"},
		{name: "retired and off", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Installation, w.Spec.Retired = installed, true
		}, action: server.None{}, phase: region.PhaseRetired, kind: region.ConditionReady, status: "False", reason: "Retired", message: "delete server s1"},
		{name: "retired, never installed", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) { w.Spec.Retired = true },
			action: server.None{}, phase: region.PhaseRetired, kind: region.ConditionInstalled, status: "Unknown", reason: "Retired"},
		{name: "retired, and its BMC is silent", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.NextTry, w.Spec.Retired = server.OutcomeUnreachable, now.Add(time.Second), true
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "Unreachable", message: "can't see to it that it is off"},
		{name: "retired duplicate is not touched", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Duplicates, w.Spec.Retired = []string{"s2"}, true
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "DuplicateIdentity"},

		{name: "installed, first boot", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) { f.Status.Installation = installed },
			action: server.None{}, phase: region.PhaseBooting, kind: region.ConditionReady, status: "False", reason: "WaitingForAgent"},
		{name: "installed", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) { f.Status.Installation = installed },
			action: server.None{}, phase: region.PhaseBooting, kind: region.ConditionInstalled, status: "True", reason: "Installed", message: "trixie-1"},
		{name: "power cut before the first boot", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) { f.Status.Installation = installed },
			action: server.PowerOn{}, phase: region.PhaseBooting, kind: region.ConditionInstalled, status: "True", reason: "Installed"},
		{name: "agent never joins", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Installation = &region.InstallationStatus{Stage: region.StageInstalled, Finished: ago(time.Hour)}
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "AgentSilent", message: "console"},
		{name: "ready", power: region.PowerOn, with: alive("True", 5*time.Second), action: server.None{}, phase: region.PhaseReady, kind: region.ConditionReady, status: "True", reason: "HostHealthy"},
		{name: "unhealthy", power: region.PowerOn, with: alive("False", 5*time.Second), action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "HostUnhealthy", message: "unit foo failed"},
		{name: "certificate expired: an operator lets the host back", power: region.PowerOn, with: expired(nil),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired, message: "its agent has not asked yet: look at its console"},
		{name: "certificate expired: it is not known whether the agent asks", power: region.PowerOn, with: expired(func(r *hostkey.Record) { r.Named = nil }),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired,
			message: "may never do so: agents of earlier versions do not, and of which it is was not recorded"},
		{name: "certificate expired: the host was readmitted, and may not ask", power: region.PowerOn, with: expired(func(r *hostkey.Record) {
			r.Named, r.ReadmitUntil = nil, now.Add(time.Hour)
		}), action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired,
			message: "may come back until 2026-03-01T13:00:00Z if its agent asks: agents of earlier versions do not"},
		{name: "certificate expired: the host asks", power: region.PowerOn,
			with:   expired(func(r *hostkey.Record) { r.Asked, r.AskedFrom = now.Add(-time.Minute), "10.99.0.17" }),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired,
			message: "its agent asked at 2026-03-01T11:59:00Z from 10.99.0.17 and holds the recorded key: regiond server readmit s1"},
		{name: "certificate not yet expired, but lost: the host asks", power: region.PowerOn,
			with: expired(func(r *hostkey.Record) {
				r.Sign(hostkey.Key{ID: "k2"}, hostkey.Key{ID: "k"}, now.Add(-time.Hour))
				r.Asked, r.AskedFrom = now.Add(-time.Minute), "10.99.0.17"
			}),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired,
			message: "it says that its certificate has expired; the one signed for it at 2026-03-01T11:00:00Z is valid until 2026-05-30T11:00:00Z: that has not reached it"},
		{name: "asked to be readmitted, was heard, and is silent now", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", time.Hour)(w, f)
			f.Key = &hostkey.Record{}
			f.Key.Sign(hostkey.Key{ID: "k", Named: true}, hostkey.Key{}, now.Add(-30*24*time.Hour))
			f.Key.Asked = now.Add(-2 * time.Hour)
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "HostSilent"},
		{name: "certificate expired: the host was readmitted", power: region.PowerOn, with: expired(func(r *hostkey.Record) { r.ReadmitUntil = now.Add(time.Hour) }),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired, message: "may come back until 2026-03-01T13:00:00Z, its agent asks every minute"},
		{name: "certificate expired: the host is off", power: region.PowerOff, with: expired(nil),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonPoweredOff},
		{name: "host silent: never installed again", power: region.PowerOn, with: alive("True", 24*time.Hour), action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "HostSilent", message: "not installed again"},
		{name: "host off: left off", power: region.PowerOff, with: alive("True", 24*time.Hour), action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "PoweredOff"},
		{name: "host off, always on: powered on", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 24*time.Hour)(w, f)
			w.Spec.Power = region.PowerAlwaysOn
		}, action: server.PowerOn{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "PoweredOff"},
		{name: "host off and heard just now, always on: not yet", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			w.Spec.Power = region.PowerAlwaysOn
		}, action: server.None{}, phase: region.PhaseReady, kind: region.ConditionReady, status: "True"},
		{name: "retired and off, always on: left off", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			alive("True", time.Hour)(w, f)
			w.Spec.Power, w.Spec.Retired = region.PowerAlwaysOn, true
		}, action: server.None{}, phase: region.PhaseRetired, kind: region.ConditionReady, status: "False", reason: "Retired"},
		{name: "ready although the BMC is silent", with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			f.BMC.Outcome, f.BMC.NextTry = server.OutcomeUnreachable, now.Add(time.Minute)
		}, action: server.None{}, phase: region.PhaseReady, kind: region.ConditionReady, status: "True", reason: "HostHealthy"},
		{name: "the silent BMC of a ready server is told", with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			f.BMC.Outcome, f.BMC.NextTry = server.OutcomeUnreachable, now
		}, action: server.Probe{}, phase: region.PhaseReady, kind: region.ConditionBMCReachable, status: "False", reason: "Unreachable"},
		{name: "status lost, host alive: adopted", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			f.Status = region.ServerStatus{}
		}, action: server.None{}, phase: region.PhaseReady, kind: region.ConditionInstalled, status: "True", reason: "Installed"},
		{name: "status lost, host silent: not touched", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", time.Hour)(w, f)
			f.Status = region.ServerStatus{}
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "HostSilent"},
		{name: "a host of an earlier server is not evidence", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			f.Status.Installation = nil
			f.Host.Spec.ServerUID = "another"
		}, action: netboot, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "Netbooting"},

		{name: "host not heard since regiond started", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			f.HeartbeatSeen, f.Listening = false, now.Add(-3*time.Second)
		}, action: server.None{}, phase: region.PhaseBooting, kind: region.ConditionReady, status: "Unknown", reason: "NotYetSeen", message: "since regiond started at 2026-03-01T11:59:57Z"},
		{name: "host not heard in its time since regiond started", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 45*time.Second)(w, f)
			f.HeartbeatSeen, f.Listening = false, now.Add(-40*time.Second)
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "HostSilent"},
		{name: "removed from region.yaml", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", 5*time.Second)(w, f)
			w.Undeclared = true
		}, action: server.None{}, phase: region.PhaseReady, kind: server.ConditionDeclared, status: "False", reason: "RemovedFromRegion", message: "delete server s1"},
	}
}

func alive(healthy metav1.ConditionStatus, heartbeat time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Installation = &region.InstallationStatus{Stage: region.StageInstalled, Finished: ago(time.Hour), LastReport: ago(time.Hour)}
		f.Host, f.Heartbeat = host(healthy), now.Add(-heartbeat)
	}
}

// expired is a host that was off until its certificate expired an hour ago.
func expired(change func(*hostkey.Record)) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		alive("True", 100*24*time.Hour)(w, f)
		f.Key = &hostkey.Record{}
		f.Key.Sign(hostkey.Key{ID: "k", Named: true}, hostkey.Key{}, now.Add(-hostkey.Validity-time.Hour))
		if change != nil {
			change(f.Key)
		}
	}
}
