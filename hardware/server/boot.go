package server

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// boot is the last network boot that regiond asked for, by the times in its own record. What machines claim of themselves
// (status.netboot.lastSeen) is not part of it.
type boot struct {
	requested, answered, reported, ended time.Time

	stage    region.InstallStage
	refused  bool
	attempts int32
	// elsewhere is the address of the BMC that was asked, when the server has another one now.
	elsewhere string
}

// lastBoot is what the record says of the server with this BMC. What was asked of another BMC tells nothing of what the machine
// runs: an address may have been corrected, or two of them exchanged.
func lastBoot(bmc region.BMCEndpoint, s region.ServerStatus) (b boot) {
	n := s.Netboot
	if n == nil || n.Requested == nil {
		return b
	}
	of := func(t *metav1.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.Time
	}
	b.requested, b.ended = n.Requested.Time, of(n.Ended)
	if n.BMCAddress != "" && n.BMCAddress != BMCAddress(bmc) { // earlier versions recorded no address
		b.elsewhere = n.BMCAddress
		return b
	}
	// Each request starts a new record: what is in it is of this boot, whatever the clock was set to meanwhile.
	b.attempts, b.answered, b.reported = n.Attempts, of(n.Answered), of(n.Reported)
	// Earlier versions recorded neither the state before a boot nor the report in it: their reports are told by
	// the clock, and a plan that was refused can't be told from an installer that failed.
	if i := s.Installation; i != nil && i.LastReport != nil && (n.Reported != nil || n.ObservedOff == nil && !i.LastReport.Before(n.Requested)) {
		b.reported, b.stage, b.refused = i.LastReport.Time, i.Stage, i.Refusal != "" || n.Reported == nil && i.Stage == region.StageFailed
	}
	if b.stage == "" && !b.reported.IsZero() {
		b.stage = region.StageInspecting // it spoke, and nothing of what it said is left
	}
	return b
}

// last is when the boot last gave a sign.
func (b boot) last() time.Time { return latest(b.requested, latest(b.answered, b.reported)) }

// own says whether what the machine runs is that boot, so that it may be ended. A record is believed for a short time
// only: while regiond was away someone may have started something else.
func (b boot) own(now time.Time) bool {
	return !b.requested.IsZero() && b.ended.IsZero() && b.elsewhere == "" && !b.refused && b.stage != region.StageInstalled &&
		!b.last().After(now) && now.Before(b.last().Add(bootLife))
}

// deadline for the boot's next sign, which is due in the given time. Machines are given their full time again after regiond was
// away, but never longer than the boot's record is believed.
func (b boot) deadline(due time.Duration, listening time.Time) time.Time {
	late := latest(b.last(), listening).Add(due)
	if end := b.last().Add(bootLife - bootMargin); end.Before(late) {
		return end
	}
	return late
}

// Job says whether a machine that asks by network is to be given the installer, and why.
type Job struct {
	Needed bool
	// Because is the reason, for the log.
	Because string
}

// Wanted says whether the server is to be installed at all.
func Wanted(want Desired, f Facts, now time.Time) Job {
	switch _, installed := installation(want, f, now); {
	case len(f.Duplicates) > 0:
		return Job{Because: "it can't be told apart from " + strings.Join(f.Duplicates, ", ")}
	case want.Spec.Retired:
		return Job{Because: "the server is retired"}
	case installed:
		return Job{Because: "the server is installed"}
	}
	return Job{Needed: true, Because: "the server is to be installed"}
}

// NeedsJob says whether the server, when it asks by network from the given MAC address, is to be
// given a ticket. That is so only in a network boot that regiond asked for, when the machine was
// off, and until an installer has used its ticket: everything else is told to boot its disk.
func NeedsJob(want Desired, f Facts, mac string, now time.Time) Job {
	wanted := Wanted(want, f, now)
	if !wanted.Needed {
		return wanted
	}
	b := lastBoot(want.Spec.BMC, f.Status)
	known := knownMACs(want, f)
	switch {
	case b.requested.IsZero():
		return Job{Because: "regiond has not asked for this network boot; power the machine off to have it inspected"}
	case b.elsewhere != "":
		return Job{Because: fmt.Sprintf("the network boot that regiond asked for at %s was asked of the BMC at %s", stamp(b.requested), b.elsewhere)}
	case f.Status.Power != region.PowerOn:
		return Job{Because: "its BMC does not say that the machine is on"}
	case !b.ended.IsZero():
		return Job{Because: "the network boot that regiond asked for at " + stamp(b.requested) + " was over at " + stamp(b.ended)}
	case !b.reported.IsZero():
		return Job{Because: "the ticket of the network boot at " + stamp(b.requested) + " was used at " + stamp(b.reported)}
	case b.requested.After(now), !now.Before(b.requested.Add(AnswerTime)):
		return Job{Because: "the network boot that regiond asked for at " + stamp(b.requested) + " is not from the last " + AnswerTime.String()}
	case !b.answered.IsZero() && !now.Before(b.answered.Add(TicketTime)):
		return Job{Because: "the ticket given at " + stamp(b.answered) + " was not used in " + TicketTime.String()}
	case !b.answered.IsZero() && !strings.EqualFold(f.Status.Netboot.AnsweredMACAddress, mac):
		return Job{Because: fmt.Sprintf("the ticket of this network boot was given to MAC address %s, not %s", f.Status.Netboot.AnsweredMACAddress, mac)}
	case len(known) > 0 && !containsFold(known, mac):
		return Job{Because: fmt.Sprintf("the server's NICs are known as %s, not %s; if that is a new NIC of it, add the address to macAddresses of the server",
			strings.Join(known, ", "), mac)}
	}
	return Job{Needed: true, Because: "regiond asked for this network boot at " + stamp(b.requested)}
}

// Restarted says whether a machine that asks by network must have restarted since its installer spoke: what it runs from then on
// regiond did not start.
func Restarted(s *region.Server) bool {
	b := lastBoot(s.Spec.BMC, s.Status)
	return !b.reported.IsZero() && b.ended.IsZero() && b.stage != region.StageInstalled
}

// knownMACs are the MAC addresses that are declared, and those that the machine itself once reported. BMCs don't tell them.
func knownMACs(want Desired, f Facts) (macs []string) {
	macs = append(macs, want.Spec.MACAddresses...)
	inv := f.Status.Inventory
	if inv == nil {
		return macs
	}
	for _, n := range inv.NICs {
		if n.MACAddress != "" {
			macs = append(macs, strings.ToLower(n.MACAddress))
		}
	}
	return macs
}

func containsFold(list []string, s string) bool {
	for _, l := range list {
		if strings.EqualFold(l, s) {
			return true
		}
	}
	return false
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
