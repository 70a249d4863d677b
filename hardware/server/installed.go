package server

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"regiond.dev/regiond/region"
)

// installation says whether the local disk holds what is wished, and since when, by evidence: the
// installer's report, or a host object of this very server whose agent has spoken. (The Host is
// deleted before an installer is told to overwrite its disk, so it never outlives its system.)
// A host that merely went silent is still installed: it is never installed again by itself.
func installation(w Wish, f Facts, now time.Time) (since time.Time, ok bool) {
	if i := f.Status.Installation; i != nil && i.Stage == region.StageInstalled && i.Finished != nil {
		since, ok = i.Finished.Time, true
	}
	if joined(w, f) {
		ok = true
		if created := f.Host.CreationTimestamp.Time; created.After(since) {
			since = created
		}
	}
	if ok && reinstall(w, since, now) {
		return time.Time{}, false
	}
	return since, ok
}

// NeedsJob says whether the server, when it netboots, is to be given the installer. It is no, and so
// 'boot your disk', for everything installed and for machines that can't be told apart.
func NeedsJob(w Wish, f Facts, now time.Time) bool {
	_, installed := installation(w, f, now)
	if installed || len(f.Duplicates) > 0 || w.Spec.Retired {
		return false
	}
	// A machine that netbooted by itself, was inspected and may not be installed has a system of its
	// own and the network first in its boot order: each time it restarts it is to reach its system.
	if inv := f.Status.Inventory; inv != nil && ByItself(f.Status) && !reinstall(w, time.Time{}, now) {
		_, _, refused := Plan(w, inv, now)
		return refused == nil
	}
	return true
}

// ByItself says whether the machine netbooted without regiond having asked for it.
func ByItself(s region.ServerStatus) bool { return s.Netboot == nil || s.Netboot.Requested == nil }

// joined says whether the agent of this server's installation has ever spoken.
func joined(w Wish, f Facts) bool {
	h := f.Host
	return h != nil && h.Spec.ServerUID == string(w.UID) && (h.Status.BootID != "" || !f.Heartbeat.IsZero())
}

// hostState judges the agent of an installed server.
func hostState(w Wish, f Facts, since, now time.Time) (ready bool, phase region.ServerPhase, reason, message string, after time.Duration) {
	off := f.BMC.Outcome == OutcomeAnswered && f.BMC.Power == region.PowerOff
	if !joined(w, f) {
		late := since.Add(joinDeadline)
		if now.Before(late) {
			return false, region.PhaseBooting, "WaitingForAgent",
				waiting("the installed system's agent to join", since, "nothing to do"), late.Sub(now)
		}
		return false, region.PhaseNotReady, "AgentSilent",
			waiting("the installed system's agent to join", since, "look at the server's console; does it boot from its disk, and does it reach the provisioning network?"), 0
	}
	fresh := latest(f.Heartbeat, f.Listening).Add(f.HeartbeatTimeout)
	if late := since.Add(joinDeadline); f.Heartbeat.IsZero() && now.Before(late) {
		return false, region.PhaseBooting, "WaitingForHeartbeat", waiting("the first heartbeat of the host", since, "nothing to do"), late.Sub(now)
	}
	switch {
	case !now.Before(fresh) && off:
		return false, region.PhaseNotReady, "PoweredOff",
			waiting("the host to be powered on", f.Heartbeat, "power it on when its maintenance is over; regiond leaves an installed host off"), 0
	case !now.Before(fresh):
		return false, region.PhaseNotReady, "HostSilent",
			waiting("a heartbeat of the host", f.Heartbeat, "look at its console and network; it is not installed again unless spec.reinstallAfter asks for it"), 0
	}
	healthy := meta.FindStatusCondition(f.Host.Status.Conditions, region.ConditionHealthy)
	switch {
	case healthy == nil:
		return false, region.PhaseBooting, "WaitingForHealth",
			waiting("the agent's first word on the host's health", since, "nothing to do"), fresh.Sub(now)
	case healthy.Status != "True":
		return false, region.PhaseNotReady, "HostUnhealthy",
			waiting("the host to be healthy", healthy.LastTransitionTime.Time, healthy.Message), fresh.Sub(now)
	}
	return true, region.PhaseReady, "HostHealthy", "the host's agent reports healthy", fresh.Sub(now)
}
