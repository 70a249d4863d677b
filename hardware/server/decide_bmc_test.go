package server_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// bmcDecisions are about a server whose BMC was asked, or is to be.
func bmcDecisions() []decision {
	return []decision{
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
	}
}
