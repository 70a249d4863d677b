package server_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

const (
	regionUID = "7c0c7f0e-0000-4000-8000-000000000001"
	serverUID = "5e44e100-0000-4000-8000-000000000002"
)

func desired() server.Desired {
	return server.Desired{Name: "s1", UID: serverUID, Generation: 3, RegionUID: regionUID,
		Spec:     region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.11", Port: 623, Credentials: "lab"}},
		Profiles: []region.Profile{{Name: "all", Firmware: inventory.FirmwareBIOS}}}
}

// answered are facts with a BMC that was just asked.
func answered(power region.PowerState) server.Facts {
	return server.Facts{CredentialsVersion: "7", HeartbeatTimeout: 40 * time.Second, HeartbeatSeen: true,
		BMC: server.Observation{Outcome: server.OutcomeAnswered, Time: now.Add(-time.Second), Power: power, CredentialsVersion: "7", Generation: 3},
		Status: region.ServerStatus{
			BMC:        &region.BMCStatus{Product: "Lab", SystemUUID: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4", CredentialsVersion: "7"},
			Conditions: []metav1.Condition{{Type: region.ConditionBMCReachable, Status: metav1.ConditionTrue, Reason: "Answered", LastTransitionTime: *ago(time.Hour)}},
		}}
}

func machine(disks ...inventory.Disk) *inventory.Inventory {
	if disks == nil {
		disks = []inventory.Disk{{Name: "vda", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD, Blank: true}}
	}
	return &inventory.Inventory{
		System:   inventory.SystemInfo{Manufacturer: "QEMU", Product: "Lab", SerialNumber: "SN1", UUID: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4"},
		CPU:      inventory.CPUInfo{Threads: 4},
		Firmware: inventory.FirmwareUEFI, MemoryBytes: 8 << 30,
		Disks: disks,
		NICs:  []inventory.NIC{{Name: "eth0", MACAddress: "52:54:00:00:00:01", Boot: true}, {Name: "eth1", MACAddress: "52:54:00:00:00:02"}},
	}
}

func host(healthy metav1.ConditionStatus) *region.Host {
	return &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "s1", CreationTimestamp: *ago(time.Hour)},
		Spec: region.HostSpec{ServerUID: serverUID}, Status: region.HostStatus{BootID: "b1", Image: "trixie-1",
			Conditions: []metav1.Condition{{Type: region.ConditionHealthy, Status: healthy, Reason: "X", Message: "unit foo failed", LastTransitionTime: *ago(time.Minute)}}}}
}

// expired is a host that was off until its certificate expired an hour ago.
func expired(change func(*hostkey.Record)) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		alive("True", 100*24*time.Hour)(w, f)
		f.Key = &hostkey.Record{}
		f.Key.Sign("k", "", now.Add(-hostkey.Validity-time.Hour))
		if change != nil {
			change(f.Key)
		}
	}
}

func TestDecide(t *testing.T) {
	netboot := netboot0(1)
	installed := &region.InstallationStatus{Stage: region.StageInstalled, Finished: ago(10 * time.Minute), LastReport: ago(10 * time.Minute), Image: "trixie-1"}
	for _, tt := range []struct {
		name  string
		power region.PowerState
		with  func(w *server.Desired, f *server.Facts)

		action server.Action
		phase  region.ServerPhase
		// condition that must be there: type, status, reason, and a part of its message
		kind    string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{name: "never asked", with: func(w *server.Desired, f *server.Facts) { *f = server.Facts{CredentialsVersion: "7"} },
			action: server.Probe{}, phase: region.PhaseDiscovered, kind: region.ConditionBMCReachable, status: "Unknown", reason: "Probing", message: "10.98.0.11:623"},
		{name: "no credentials", with: func(w *server.Desired, f *server.Facts) { f.CredentialsVersion = "" },
			action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionBMCReachable, status: "False", reason: "CredentialsMissing", message: `"lab"; add them`},
		{name: "wrong password", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.Error, f.BMC.NextTry = server.OutcomeRefused, "BMC admin@10.98.0.11:623: refused", now.Add(time.Minute)
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionBMCReachable, status: "False", reason: "AuthenticationFailed", message: "admin@10.98.0.11:623"},
		{name: "wrong password, its long interval is over", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.NextTry = server.OutcomeRefused, now
		}, action: server.Probe{}, phase: region.PhaseFailed, kind: region.ConditionBMCReachable, status: "False", reason: "AuthenticationFailed"},
		{name: "user with too few rights", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.Reason, f.BMC.NextTry = server.OutcomeRefused, region.ReasonPrivilegeInsufficient, now.Add(time.Minute)
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "PrivilegeInsufficient"},
		{name: "machine that can't be recognised", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.BMC.SystemUUID, f.Status.BMC.SerialNumber = ami, "Default string"
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "NoIdentity", message: "macAddresses"},
		{name: "machine that its NIC tells apart", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Status.BMC.SystemUUID, f.Status.BMC.SerialNumber = ami, "Default string"
			w.Spec.MACAddresses = []string{macA1}
		}, action: netboot, phase: region.PhaseInspecting, kind: region.ConditionInspected, status: "False", reason: "Netbooting"},
		{name: "BMC with a key", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.Reason, f.BMC.NextTry = server.OutcomeUnreachable, region.ReasonBMCKeyRequired, now.Add(time.Minute)
			f.BMC.Error = "the BMC wants a BMC key (K_G) beside the password"
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "BMCKeyRequired", message: "correct bmcKey in the credentials file"},
		{name: "BMC that starts", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.Reason, f.BMC.NextTry = server.OutcomeUnreachable, region.ReasonBMCInitializing, now
		}, action: server.Probe{}, phase: region.PhaseInspecting, kind: region.ConditionBMCReachable, status: "False", reason: "Initializing"},
		{name: "wrong password is remembered by the status after a restart", with: func(w *server.Desired, f *server.Facts) {
			f.BMC = server.Observation{}
			// As an earlier version wrote it, without the time of the refusal.
			f.Status.Conditions[0] = metav1.Condition{Type: region.ConditionBMCReachable, Status: "False", Reason: "AuthenticationFailed", Message: "as before", ObservedGeneration: 3, LastTransitionTime: *ago(59 * time.Minute)}
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "AuthenticationFailed", message: "as before"},
		{name: "wrong password of long ago, tried again lately, after a restart", with: func(w *server.Desired, f *server.Facts) {
			f.BMC, f.Status.BMC.CredentialsRefused = server.Observation{}, ago(10*time.Minute)
			f.Status.Conditions[0] = metav1.Condition{Type: region.ConditionBMCReachable, Status: "False", Reason: "PrivilegeInsufficient", Message: "as before", ObservedGeneration: 3, LastTransitionTime: *ago(24 * time.Hour)}
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "PrivilegeInsufficient", message: "as before"},
		{name: "wrong password an hour ago, after a restart", with: func(w *server.Desired, f *server.Facts) {
			f.BMC, f.Status.BMC.CredentialsRefused = server.Observation{}, ago(time.Hour)
			f.Status.Conditions[0] = metav1.Condition{Type: region.ConditionBMCReachable, Status: "False", Reason: "AuthenticationFailed", Message: "as before", ObservedGeneration: 3}
		}, action: server.Probe{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "AuthenticationFailed", message: "as before"},
		{name: "wrong password, Secret changed", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.CredentialsVersion = server.OutcomeRefused, "8"
		}, action: server.Probe{}, phase: region.PhaseInspecting, kind: region.ConditionBMCReachable, status: "Unknown", reason: "Probing"},
		{name: "wrong password, Secret changed, after a restart", with: func(w *server.Desired, f *server.Facts) {
			f.BMC, f.CredentialsVersion = server.Observation{}, "8"
			f.Status.Conditions[0] = metav1.Condition{Type: region.ConditionBMCReachable, Status: "False", Reason: "AuthenticationFailed", ObservedGeneration: 3}
		}, action: server.Probe{}, phase: region.PhaseInspecting, kind: region.ConditionBMCReachable, status: "Unknown", reason: "Probing"},
		{name: "wrong password, spec changed", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, w.Generation = server.OutcomeRefused, 4
		}, action: server.Probe{}, phase: region.PhaseInspecting, kind: region.ConditionBMCReachable, status: "Unknown", reason: "Probing"},
		{name: "silent BMC, not yet time", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.Error, f.BMC.NextTry = server.OutcomeUnreachable, "no answer", now.Add(time.Second)
		}, action: server.None{}, phase: region.PhaseInspecting, kind: region.ConditionBMCReachable, status: "False", reason: "Unreachable", message: "waiting for an answer of the BMC"},
		{name: "silent BMC, time to ask", with: func(w *server.Desired, f *server.Facts) {
			f.BMC.Outcome, f.BMC.NextTry = server.OutcomeUnreachable, now
		}, action: server.Probe{}, phase: region.PhaseInspecting, kind: region.ConditionReady, status: "False", reason: "Unreachable"},
		{name: "duplicate", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) { f.Duplicates = []string{"s2"} },
			action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionReady, status: "False", reason: "DuplicateIdentity", message: "same machine as s2"},
		{name: "duplicate even when installed", power: region.PowerOff, with: func(w *server.Desired, f *server.Facts) {
			f.Duplicates, f.Status.Installation = []string{"s2"}, installed
		}, action: server.None{}, phase: region.PhaseFailed, kind: region.ConditionInstalled, status: "Unknown", reason: "DuplicateIdentity"},

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
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired, message: "has not asked yet"},
		{name: "certificate expired: the host asks", power: region.PowerOn,
			with:   expired(func(r *hostkey.Record) { r.Asked, r.AskedFrom = now.Add(-time.Minute), "10.99.0.17" }),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired,
			message: "its agent asked at 2026-03-01T11:59:00Z from 10.99.0.17 and holds the recorded key: regiond server readmit s1"},
		{name: "certificate expired: the host was readmitted", power: region.PowerOn, with: expired(func(r *hostkey.Record) { r.ReadmitUntil = now.Add(time.Hour) }),
			action: server.None{}, phase: region.PhaseNotReady, kind: region.ConditionReady, status: "False", reason: region.ReasonCertificateExpired, message: "may come back until 2026-03-01T13:00:00Z"},
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, f := desired(), answered(tt.power)
			if tt.with != nil {
				tt.with(&w, &f)
			}
			d := server.Decide(w, f, now)
			if d.Action != tt.action {
				t.Errorf("action %T%+v, want %T%+v", d.Action, d.Action, tt.action, tt.action)
			}
			if d.Phase != tt.phase {
				t.Errorf("phase %s, want %s", d.Phase, tt.phase)
			}
			c := meta.FindStatusCondition(d.Conditions, tt.kind)
			if c == nil {
				t.Fatalf("no condition %s", tt.kind)
			}
			if c.Status != tt.status || tt.reason != "" && c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
				t.Errorf("condition %s: %s %s %q, want %s %s %q", c.Type, c.Status, c.Reason, c.Message, tt.status, tt.reason, tt.message)
			}
			for _, c := range d.Conditions {
				if c.Reason == "" || c.Message == "" || c.ObservedGeneration != w.Generation {
					t.Errorf("condition %s explains nothing: %+v", c.Type, c)
				}
			}
			if _, waits := d.Action.(server.None); waits && d.After == 0 && d.Phase != region.PhaseFailed && d.Phase != region.PhaseReady && d.Phase != region.PhaseNotReady {
				t.Errorf("waits for ever: %+v", d)
			}
			if job := server.NeedsJob(w, f, "52:54:00:00:00:01", now); d.Installed && job.Needed {
				t.Error("an installed server would be given the installer")
			}
			// Deciding twice on what was decided changes nothing: the controller does not run in circles.
			s := f.Status
			d.Apply(&s, now)
			again := f
			again.Status = s
			d2, s2 := server.Decide(w, again, now), *s.DeepCopy()
			d2.Apply(&s2, now.Add(time.Second))
			d3 := server.Decide(w, again, now)
			for i := range d2.Conditions {
				if d2.Conditions[i] != d3.Conditions[i] {
					t.Errorf("not stable: %+v, then %+v", d2.Conditions[i], d3.Conditions[i])
				}
			}
		})
	}
}

func netboot0(attempt int32) server.Netboot {
	return server.Netboot{Firmware: inventory.FirmwareBIOS, Attempt: attempt, ObservedOff: now.Add(-time.Second)}
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

func running(stage region.InstallStage, last time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Inventory = machine()
		f.Status.Netboot = &region.NetbootStatus{Requested: ago(last + 2*time.Minute), Answered: ago(last + time.Minute), Attempts: 1,
			ObservedOff: ago(last + 2*time.Minute), Reported: ago(last)}
		f.Status.Installation = &region.InstallationStatus{Stage: stage, LastReport: ago(last), Started: ago(last)}
	}
}

func alive(healthy metav1.ConditionStatus, heartbeat time.Duration) func(*server.Desired, *server.Facts) {
	return func(w *server.Desired, f *server.Facts) {
		f.Status.Installation = &region.InstallationStatus{Stage: region.StageInstalled, Finished: ago(time.Hour), LastReport: ago(time.Hour)}
		f.Host, f.Heartbeat = host(healthy), now.Add(-heartbeat)
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
