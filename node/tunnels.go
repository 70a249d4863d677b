package node

import (
	"context"
	"fmt"
	"time"

	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// tunnels are what came of the last look at the ways to other hosts.
type tunnels struct {
	// tried since the agent has started.
	tried bool
	// found is nil if the host has no tunnels.
	found *region.HostTunnels
}

// tryTunnels looks at the ways to other hosts. What came of it is reported with the next status.
func (a *Agent) tryTunnels(ctx context.Context) {
	found, err := a.Tunnels(ctx, a.reported.Tunnels)
	if ctx.Err() != nil {
		return
	}
	a.quiet.log(a.Log, "look at the tunnels", err, a.Now())
	if err == nil {
		a.tunnels = tunnels{tried: true, found: found}
	}
}

// report the tunnels in a status; old is what was last written. An agent that has not looked since
// it started takes nothing back.
func (t tunnels) report(s *region.HostStatus, old region.HostStatus, now time.Time) {
	if !t.tried {
		s.Tunnels = old.Tunnels
		for _, was := range old.Conditions {
			if was.Type == region.ConditionTunnels {
				s.Conditions = append(s.Conditions, was)
			}
		}
		return
	}
	if t.found == nil {
		if old.Tunnels != nil {
			s.Tunnels = &region.HostTunnels{} // a merge patch without it would leave what is there
		}
		return
	}
	s.Tunnels = t.found
	passed, reason, message := t.judge()
	s.Conditions = append(s.Conditions, condition(region.ConditionTunnels, passed, reason, message, old, now))
}

// judge says whether tunnels are blocked, and what to do.
func (t tunnels) judge() (passed bool, reason, message string) {
	if len(t.found.Blocked) == 0 {
		return true, region.ReasonTunnelsPass, fmt.Sprintf("packets of %d bytes got to all hosts that were tried", t.found.MTU)
	}
	return false, region.ReasonTunnelsBlocked, fmt.Sprintf("packets of %d bytes, which carry guests' frames through tunnels, don't get to %s, and small "+
		"ones do: guests' large packets are lost; set an MTU of at least %d on every interface and switch between, or a smaller neutron.global_physnet_mtu",
		t.found.MTU, bounded.List(t.found.Blocked, ", "), t.found.MTU)
}
