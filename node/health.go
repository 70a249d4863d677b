package node

import (
	"fmt"
	"strings"
	"time"

	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// Limits of health.
const (
	minFreePercent = 5
	maxClockOffset = 30 * time.Second // beyond it tokens and certificates become unreliable
)

// Judge says whether a host is healthy, why not, and what to do. It is pure. Numbers that change all
// the time are kept out of the message, or an idle host would rewrite its status for ever.
func Judge(o Observation, clockOffset time.Duration) (healthy bool, reason, message string) {
	var why []string
	say := func(r, m string) {
		if reason == "" {
			reason = r
		}
		why = append(why, m)
	}
	if len(o.FailedUnits) > 0 {
		say(region.ReasonUnitsFailed, fmt.Sprintf("failed units of systemd: %s; see journalctl -u UNIT on the host", bounded.List(o.FailedUnits, ", ")))
	}
	for _, s := range o.Space {
		if s.FreePercent < minFreePercent {
			say(region.ReasonFileSystemFull, fmt.Sprintf("less than %d %% of %s is free; delete something there", minFreePercent, s.Mount))
		}
		if s.FreeInodesPercent < minFreePercent {
			say(region.ReasonFileSystemFull, fmt.Sprintf("less than %d %% of the inodes of %s are free; delete small files there", minFreePercent, s.Mount))
		}
	}
	if clockOffset.Abs() > maxClockOffset {
		say(region.ReasonClockWrong, fmt.Sprintf("the clock differs from the API server's by more than %s; check the NTP servers", maxClockOffset))
	}
	if len(o.Errors) > 0 {
		say(region.ReasonObservationFailed, bounded.List(o.Errors, "; "))
	}
	if len(why) == 0 {
		return true, region.ReasonHealthy, "no problem was found"
	}
	return false, reason, strings.Join(why, ". ")
}
