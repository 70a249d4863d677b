package server_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// netboot is the first attempt.
var netboot = netboot0(1)

func netboot0(attempt int32) server.Netboot {
	return server.Netboot{Firmware: inventory.FirmwareBIOS, Attempt: attempt, ObservedOff: now.Add(-time.Second)}
}

// bootDecisions are about a machine that is off, or whose run is not known, and about its network boot.
func bootDecisions() []decision {
	return []decision{
		{name: "new and off", power: region.PowerOff, action: netboot, phase: region.PhaseInspecting, kind: region.ConditionInspected, status: "False", reason: "Netbooting"},
		{name: "observation is old", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) { f.BMC.Time = now.Add(-time.Minute) },
			action: server.Probe{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "Probing"},
		{name: "power unknown: nothing is done", power: region.PowerUnknown, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "Probing"},
		// What runs may be somebody's production, also when regiond lost all it knew of it.
		{name: "new and on: left alone", power: region.PowerOn, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown", message: "power it off to have it inspected"},
		{name: "new and on, an installation is asked for: that is not consent to end what runs", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.ReinstallAfter = ago(time.Minute)
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown", message: "spec.takeoverUntil"},
		{name: "new and on, its takeover is allowed: shut down first", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.TakeoverUntil = ago(-time.Hour)
		}, action: server.ShutDown{Consent: region.ConsentTakeover}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown", message: "spec.takeoverUntil allows it until 2026-03-01T13:00:00Z"},
		{name: "new and on, its takeover was allowed once", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.TakeoverUntil = ago(time.Second)
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "taken over, asked to shut down", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.TakeoverUntil = ago(-time.Hour)
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(time.Minute), Consent: region.ConsentTakeover}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},
		{name: "taken over, did not shut down", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.TakeoverUntil = ago(-time.Hour)
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(2 * time.Minute), Consent: region.ConsentTakeover}
		}, action: server.PowerOff{Consent: region.ConsentTakeover}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},
		{name: "asked to shut down by another consent long ago: asked again", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.TakeoverUntil = ago(-time.Hour)
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(time.Hour), Consent: region.ConsentTakeover}
		}, action: server.ShutDown{Consent: region.ConsentTakeover}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},

		{name: "netboot requested", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(time.Minute), Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionInspected, status: "False", reason: "WaitingForNetboot", message: "since 2026-03-01T11:59:00Z"},
		{name: "netboot not seen: off first", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), Attempts: 1}
		}, action: server.ShutDown{Consent: region.ConsentOwnBoot}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "NetbootTimeout", message: "edge port (STP) and LACP fallback"},
		{name: "netboot asked for by a NIC that is not known", power: region.PowerOn, with: newNIC(time.Minute), action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "WaitingForNetboot",
			message: "it asked for its script at 2026-03-01T11:59:30Z from MAC address 52:54:00:00:00:99, and was told to boot its disk: the server's NICs are known as 52:54:00:00:00:01, 52:54:00:00:00:02, not"},
		{name: "netboot asked for by a NIC that is not known, off first", power: region.PowerOn, with: newNIC(6 * time.Minute), action: server.ShutDown{Consent: region.ConsentOwnBoot}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "NetbootTimeout",
			message: "if that is a new NIC of it, add the address to macAddresses of the server; it is tried again"},
		{name: "netboot asked for by a NIC that is declared since", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			newNIC(time.Minute)(w, f)
			w.Spec.MACAddresses = []string{"52:54:00:00:00:99"}
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "WaitingForNetboot", message: "the reason has passed since"},
		{name: "netboot last seen before it was requested", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), LastSeen: ago(6 * time.Minute), Attempts: 1}
		}, action: server.ShutDown{Consent: region.ConsentOwnBoot}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "NetbootTimeout", message: "it has not asked"},
		{name: "asked to shut down, then the slow machine's installer came and fell silent: asked again", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageInspecting, 3*time.Minute)(w, f)
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(3*time.Minute + 30*time.Second), Consent: region.ConsentOwnBoot}
		}, action: server.ShutDown{Consent: region.ConsentOwnBoot}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "InstallerSilent"},
		{name: "silent installer was asked to shut down", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageInspecting, 5*time.Minute)(w, f)
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(2 * time.Minute), Consent: region.ConsentOwnBoot}
		}, action: server.PowerOff{Consent: region.ConsentOwnBoot}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "InstallerSilent"},
		{name: "netboot not seen, no system shut down", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(8 * time.Minute), Attempts: 1}
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(2 * time.Minute), Consent: region.ConsentOwnBoot}
		}, action: server.PowerOff{Consent: region.ConsentOwnBoot}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "NetbootTimeout"},
		{name: "netboot not seen for an hour, regiond was away: someone else's by now", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot, f.Listening = &region.NetbootStatus{Requested: ago(time.Hour), Attempts: 1}, now.Add(-time.Second)
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown", message: "last heard of at 2026-03-01T11:00:00Z"},
		{name: "netboot asked of this BMC", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), BMCAddress: "10.98.0.11:623", Attempts: 1}
			w.Spec.BMC.Address, w.Spec.BMC.Port = "::ffff:10.98.0.11", 0 // the same, in other words
		}, action: server.ShutDown{Consent: region.ConsentOwnBoot}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "NetbootTimeout"},
		{name: "netboot asked of another BMC, address corrected", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), BMCAddress: "10.98.0.5:623", Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown", message: "asked of the BMC at 10.98.0.5:623"},
		{name: "installer of another BMC's machine fell silent", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageWriting, 4*time.Minute)(w, f)
			f.Status.Netboot.BMCAddress = "10.98.0.11:6230"
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "netboots of another BMC's machine are not this one's attempts", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageFailed, time.Second)(w, f)
			f.Status.Netboot.BMCAddress, f.Status.Netboot.Attempts = "10.98.0.5:623", 9
			w.Profiles[0].RootDisk.SerialNumber = "D9" // and its disks are not this one's
		}, action: netboot, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "Netbooting"},
		{name: "another BMC was asked to shut down: this one is asked first", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			w.Spec.TakeoverUntil = ago(-time.Hour)
			f.Status.Shutdown = &region.ShutdownStatus{Requested: *ago(2 * time.Minute), Consent: region.ConsentTakeover, BMCAddress: "10.98.0.5:623"}
		}, action: server.ShutDown{Consent: region.ConsentTakeover}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "ShuttingDown"},
		{name: "duplicate whose address was corrected: it may not be one any more", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Duplicates, w.Generation = []string{"s2"}, 4
		}, action: server.Probe{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "DuplicateIdentity"},
		{name: "netboot from the future: the clock was set back", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(-time.Hour), Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "off after a netboot, then on by itself", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), Ended: ago(5 * time.Minute), Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown", message: "started by itself or by someone else"},
		{name: "restarted by itself while it was installed", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageWriting, time.Hour)(w, f)
			f.Status.Netboot.Ended = ago(time.Minute)
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "second attempt has longer", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), Attempts: 2}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "WaitingForNetboot"},
		{name: "netboot not seen, off: again", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), Attempts: 1}
		}, action: netboot0(2), phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "PowerLost"},
		{name: "switched off since it did not netboot: the reason and its advice stay during the back-off", power: region.PowerOff, with: timedOut("NetbootTimeout", 3*time.Minute),
			action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionInspected, status: "False", reason: "NetbootTimeout", message: "check the cabling"},
		{name: "switched off since its installer was silent", power: region.PowerOff, with: timedOut("InstallerSilent", 3*time.Minute),
			action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "InstallerSilent", message: "check the cabling"},
		{name: "lost power in a later boot than the one that timed out", power: region.PowerOff, with: timedOut("NetbootTimeout", time.Hour),
			action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "PowerLost"},
		{name: "lost power while its boot was waited for", power: region.PowerOff, with: timedOut("WaitingForNetboot", 3*time.Minute),
			action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "PowerLost"},
		{name: "ninth attempt waits its back-off", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(20*time.Minute + time.Second), Attempts: 8}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "PowerLost"},
		{name: "killed between writing and powering on", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(20 * time.Second), Attempts: 1}
		}, action: netboot0(2), phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "PowerLost"},

		{name: "loader seen", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(2 * time.Minute), Answered: ago(time.Minute), Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionInspected, status: "False", reason: "LoadingInstaller"},
		{name: "report of an earlier boot from before the clock was set back", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			running(region.StageWriting, -time.Hour)(w, f)
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(time.Minute), ObservedOff: ago(time.Minute), Attempts: 2}
		}, action: server.None{}, phase: region.PhaseInstalling, kind: region.ConditionReady, status: "False", reason: "WaitingForNetboot"},
		{name: "installer spoke, its report is lost", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(2 * time.Minute), ObservedOff: ago(2 * time.Minute), Answered: ago(time.Minute), Reported: ago(time.Second), Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "Inspecting"},
		{name: "installer spoke, its report is lost, and the machine is off", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(2 * time.Minute), ObservedOff: ago(2 * time.Minute), Answered: ago(time.Minute), Reported: ago(time.Second), Attempts: 1}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "PowerLost", message: "in stage Inspecting after"},
		{name: "netbooted by itself, unasked", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{LastSeen: ago(time.Minute)}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "netbooted by itself, unasked, and fell silent", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{LastSeen: ago(time.Hour)}
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "RunningUnknown"},
		{name: "installer never speaks", power: region.PowerOn, with: func(w *server.Desired, f *server.Facts) {
			f.Status.Netboot = &region.NetbootStatus{Requested: ago(8 * time.Minute), Answered: ago(6 * time.Minute), Attempts: 1}
		}, action: server.ShutDown{Consent: region.ConsentOwnBoot}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "InstallerSilent", message: "console"},
	}
}

// timedOut is a machine that is off during the back-off after its eighth attempt, of which the reason was said a while ago.
func timedOut(reason string, said time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Netboot = &region.NetbootStatus{Requested: ago(15 * time.Minute), Ended: ago(time.Minute), Attempts: 8}
		f.Status.Conditions = append(f.Status.Conditions, metav1.Condition{Type: region.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
			Message: "check the cabling", LastTransitionTime: *ago(said)})
	}
}

// newNIC is a machine that was powered on a while ago, and has asked for its script from a NIC that it did not report before.
func newNIC(requested time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Inventory, f.Status.Power = machine(), region.PowerOn
		f.Status.Netboot = &region.NetbootStatus{Requested: ago(requested), LastSeen: ago(30 * time.Second), MACAddress: "52:54:00:00:00:99", Attempts: 1}
	}
}
