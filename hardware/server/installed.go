package server

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/region"
)

// onRecord says whether regiond's own records hold an installation, and of when: the installer's report, or a host object of this
// very server whose agent has spoken. (The Host is deleted when a reinstallation is accepted, so it never outlives its system.)
// A host that merely went silent is still installed: it is never installed again by itself.
func onRecord(want Desired, f Facts) (since time.Time, ok bool) {
	if i := f.Status.Installation; i != nil && i.Stage == region.StageInstalled && i.Finished != nil {
		since, ok = i.Finished.Time, true
		if i.Adopted != nil {
			since = latest(since, i.Adopted.Time)
		}
	}
	if joined(want, f) {
		ok = true
		if created := f.Host.CreationTimestamp.Time; created.After(since) {
			since = created
		}
	}
	return since, ok
}

// installation says whether the local disk holds what is wanted, and since when. An installation that is to be replaced counts
// until its replacement was accepted.
func installation(want Desired, f Facts, now time.Time) (since time.Time, ok bool) {
	since, ok = onRecord(want, f)
	if ok && want.Reinstallation != nil && reinstall(want, since, now) {
		return time.Time{}, false
	}
	return since, ok
}

// joined says whether the agent of this server's installation has ever spoken.
func joined(want Desired, f Facts) bool {
	h := f.Host
	return h != nil && h.Spec.ServerUID == string(want.UID) && (h.Status.BootID != "" || !f.Heartbeat.IsZero())
}

// hostView is how the agent of an installed server stands.
type hostView struct {
	ready   metav1.ConditionStatus
	phase   region.ServerPhase
	reason  string
	message string
	// after is when to look again, zero when only an event matters.
	after time.Duration
}

// viewHost judges the agent of an installed server. What it said to an earlier process of regiond
// counts for nothing: until it is heard again, for at most the time-out of its heartbeat, it is
// unknown how it stands.
func viewHost(want Desired, f Facts, since, now time.Time) hostView {
	off := f.BMC.Outcome == OutcomeAnswered && f.BMC.Power == region.PowerOff
	no := func(phase region.ServerPhase, after time.Duration, reason, message string) hostView {
		return hostView{metav1.ConditionFalse, phase, reason, message, after}
	}
	if !joined(want, f) {
		late := since.Add(joinDeadline)
		if now.Before(late) {
			return no(region.PhaseBooting, late.Sub(now), region.ReasonWaitingForAgent,
				waiting("the installed system's agent to join", since, "nothing to do"))
		}
		return no(region.PhaseNotReady, 0, region.ReasonAgentSilent, waiting("the installed system's agent to join", since,
			"look at the server's console; does it boot from its disk, and does it reach the provisioning network?"))
	}
	if late := since.Add(joinDeadline); f.Heartbeat.IsZero() && now.Before(late) {
		return no(region.PhaseBooting, late.Sub(now), region.ReasonWaitingForHeartbeat, waiting("the first heartbeat of the host", since, "nothing to do"))
	}
	fresh := latest(f.Heartbeat, f.Listening).Add(f.HeartbeatTimeout)
	switch {
	case !now.Before(fresh) && off && want.Spec.Power == region.PowerAlwaysOn:
		return no(region.PhaseNotReady, 0, region.ReasonPoweredOff,
			waiting("the host, which is powered on since spec.power is always-on", f.Heartbeat, "nothing to do"))
	case !now.Before(fresh) && off:
		return no(region.PhaseNotReady, 0, region.ReasonPoweredOff,
			waiting("the host to be powered on", f.Heartbeat, "power it on when its maintenance is over; regiond leaves it off, as its spec.power says (manual)"))
	case !now.Before(fresh) && f.Key.NeedsReadmission(f.Heartbeat, now):
		return no(region.PhaseNotReady, untilOf(f.Key, now), region.ReasonCertificateExpired, waiting("the host to be readmitted", f.Heartbeat, readmission(want.Name, f.Key, now)))
	case !now.Before(fresh):
		return no(region.PhaseNotReady, 0, region.ReasonHostSilent,
			waiting("a heartbeat of the host", f.Heartbeat, "look at its console and network; it is not installed again unless spec.reinstallAfter asks for it"))
	case !f.HeartbeatSeen:
		return hostView{metav1.ConditionUnknown, region.PhaseBooting, region.ReasonNotYetSeen,
			"waiting for the first heartbeat of the host since regiond started at " + stamp(f.Listening) + "; nothing to do", min(heartbeatPoll, fresh.Sub(now))}
	}
	healthy := meta.FindStatusCondition(f.Host.Status.Conditions, region.ConditionHealthy)
	switch {
	case healthy == nil:
		return no(region.PhaseBooting, fresh.Sub(now), region.ReasonWaitingForHealth,
			waiting("the agent's first report of the host's health", since, "nothing to do"))
	case healthy.Status != metav1.ConditionTrue:
		return no(region.PhaseNotReady, fresh.Sub(now), region.ReasonHostUnhealthy,
			waiting("the host to be healthy", healthy.LastTransitionTime.Time, healthy.Message))
	}
	return hostView{metav1.ConditionTrue, region.PhaseReady, region.ReasonHostHealthy, "the host's agent reports healthy", fresh.Sub(now)}
}

// readmission says how a host whose certificate expired comes back.
func readmission(name string, key *hostkey.Record, now time.Time) string {
	const earlier = "agents of earlier versions do not, and of which it is was not recorded"
	need, readmit := key.Need(now)+"; ", "regiond server readmit "+name
	switch {
	case key.Open(now) && key.Asks():
		return fmt.Sprintf("%sit may come back until %s, its agent asks every minute", need, stamp(key.ReadmitUntil))
	case key.Open(now):
		return fmt.Sprintf("%sit may come back until %s if its agent asks: %s; if it does not come, install it again (spec.reinstallAfter)", need, stamp(key.ReadmitUntil), earlier)
	case !key.Asked.IsZero():
		return fmt.Sprintf("%sits agent asked at %s from %s and holds the recorded key: %s", need, stamp(key.Asked), key.AskedFrom, readmit)
	case key.Asks():
		return need + "its agent has not asked yet: look at its console and network, then " + readmit
	}
	return need + "its agent has not asked, and may never do so: " + earlier + ". Look at its console and network, then " + readmit +
		"; if it does not come, install it again (spec.reinstallAfter)"
}

// untilOf is how long a readmission is open, zero if it is not.
func untilOf(key *hostkey.Record, now time.Time) time.Duration {
	if !key.Open(now) {
		return 0
	}
	return key.ReadmitUntil.Sub(now)
}
