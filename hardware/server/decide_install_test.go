package server_test

import (
	"time"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// installDecisions are about an installer that runs, or was refused.
func installDecisions() []decision {
	return []decision{
		{name: "inspecting", power: region.PowerOn, with: running(region.StageInspecting, 10*time.Second), action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "Inspecting"},
		{name: "inspected", power: region.PowerOn, with: running(region.StageInspecting, 10*time.Second), action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInspected, status: "True", reason: "Inspected", message: "4 CPUs"},
		{name: "waiting for an image", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageInspecting, 10*time.Second)(w, f)
			f.Status.Installation.Message = "there is no node image yet; build one"
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "Inspecting", message: "no node image"},
		{name: "writing", power: region.PowerOn, with: running(region.StageWriting, 10*time.Second), action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "Writing"},
		{name: "power cut while writing", power: region.PowerOff, with: running(region.StageWriting, 20*time.Second),
			action: netboot0(2), phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "PowerLost"},
		{name: "installer falls silent while writing", power: region.PowerOn, with: running(region.StageWriting, 4*time.Minute),
			action: server.PowerOff{Consent: region.ConsentOwnBoot}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "InstallerSilent"},
		{name: "installer silent while regiond was away", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageWriting, 10*time.Minute)(w, f)
			f.Listening = now.Add(-time.Second)
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "Writing"},
		{name: "netboot not seen while regiond was away", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot, f.Listening = &region.NetbootStatus{Requested: ago(6 * time.Minute), Attempts: 1}, now.Add(-time.Second)
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "WaitingForNetboot"},
		{name: "heartbeat missed while regiond was away", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", time.Hour)(w, f)
			f.Listening = now.Add(-time.Second)
		}, action: server.None{}, phase: region.PhaseReady, kind: region.ConditionReady, status: "True", reason: "HostHealthy"},
		{name: "no heartbeat since regiond is back", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			alive("True", time.Hour)(w, f)
			f.Listening = now.Add(-time.Minute)
		}, action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: "HostSilent"},
		{name: "installer failed", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, 10*time.Second)(w, f)
			f.Status.Installation.Message = "write error"
		}, action: server.PowerOff{Consent: region.ConsentOwnBoot}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "InstallerFailed", message: "write error"},
		{name: "installer failed, back-off", power: region.PowerOff, with: running(region.StageFailed, 10*time.Second), action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "InstallerFailed"},

		{name: "plan refused", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Hour)(w, f)
			w.Profiles[0].RootDisk.SerialNumber = "D9"
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionInstalled, status: "False", reason: "DiskNotSelected", message: "vda serial D1"},
		{name: "plan refused while it is on: left on", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Minute)(w, f)
			w.Profiles[0].RootDisk.SerialNumber, f.Status.Installation.Refusal = "D9", "DiskNotSelected"
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "DiskNotSelected"},
		{name: "plan was refused while it is on, profile corrected: left on", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Minute)(w, f)
			f.Status.Installation.Refusal = "DiskNotSelected"
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "RunningUnknown", message: "refused at 2026-03-01T11:59:00Z"},
		{name: "came by itself to an older version and was refused, profile corrected: left on", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Hour)(w, f)
			f.Status.Netboot = &region.NetbootStatus{LastSeen: ago(time.Hour)}
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "plan was refused while it is on, profile corrected, takeover allowed", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Minute)(w, f)
			f.Status.Installation.Refusal, w.Spec.TakeoverUntil = "DiskNotSelected", ago(-time.Hour)
		}, action: server.ShutDown{Consent: region.ConsentTakeover}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},
		{name: "plan was refused, profile corrected", power: region.PowerOff, with: running(region.StageFailed, time.Hour),
			action: netboot0(2), phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "InstallerFailed"},
		{name: "plan was refused, operator asks for another try", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Hour)(w, f)
			w.Profiles[0].RootDisk.SerialNumber = "D9"
			w.Spec.ReinstallAfter = ago(time.Second)
		}, action: netboot0(1), phase: region.PhaseInstalling, kind: region.ConditionInstalled, status: "False", reason: "Netbooting"},
		{name: "no profile matches", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Hour)(w, f)
			w.Profiles[0].Match.Product = "R7*"
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "ProfileNotMatched", message: `all: product is "Lab", not "R7*"`},
	}
}

func running(stage region.InstallStage, last time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Inventory = machine()
		f.Status.Netboot = &region.NetbootStatus{Requested: ago(last + 2*time.Minute), Answered: ago(last + time.Minute), Attempts: 1,
			ObservedOff: ago(last + 2*time.Minute), Reported: ago(last)}
		f.Status.Installation = &region.InstallationStatus{Stage: stage, LastReport: ago(last), Started: ago(last)}
	}
}
