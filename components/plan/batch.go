package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// How a changed configuration reaches the hosts of a cluster.
const (
	// BudgetPercent of a cluster's hosts, but at least one, may be unavailable at once because of a change.
	BudgetPercent = 10
	// ProofLimit is how long a host has from getting a configuration to running it with its services up. After that the change
	// has failed there, and reaches no other host.
	ProofLimit = 5 * time.Minute
)

// HostState is what decides whether a host gets its configuration now.
type HostState struct {
	Name string
	// Desired and Stored are digests: of the configuration that it is to have, and of the one that was written for it.
	Desired, Stored string
	// Given is when Stored was written, WasUp whether the host was up then, Current whether that was for the present declaration.
	Given          time.Time
	WasUp, Current bool
	// Up: it runs what is stored, and its services are up. UpUnknown: nobody could be asked.
	Up, UpUnknown bool
	// Problem says why it is not up.
	Problem string
	// Joining hosts get their first configuration, or their first registration: nothing of theirs can be disturbed.
	Joining bool
	// Cuts: the change restarts what carries guests' traffic. Guests are how many the host has.
	Cuts   bool
	Guests int
}

// pending: the host is to get another configuration.
func (h HostState) pending() bool { return h.Stored != h.Desired }

// moving: the host got its configuration a moment ago and is not up with it yet.
func (h HostState) moving(now time.Time) bool {
	return !h.pending() && !h.Up && !h.Given.IsZero() && now.Sub(h.Given) <= ProofLimit
}

// failed: the host was up before it got the present declaration's configuration, and is not with it. One that was not up before
// proves nothing, and one that has an earlier declaration's says nothing of this one.
func (h HostState) failed(now time.Time) bool {
	return !h.pending() && !h.Up && !h.UpUnknown && h.WasUp && h.Current && !h.Given.IsZero() && now.Sub(h.Given) > ProofLimit
}

// proved: the host has shown that the present declaration works.
func (h HostState) proved() bool { return !h.pending() && h.Up && h.WasUp && h.Current }

// Batch says which hosts get their configuration now, and why the others wait.
type Batch struct {
	Go []string
	// Moving is how many hosts get their configuration now, or got it and may still come up with it.
	Moving int
	// Waits says for each host that waits what for. The texts are alike for many hosts, and change rarely.
	Waits map[string]string
	// Failed is the host on which the change has failed, empty if there is none, or no host is left to be kept from it: then a host
	// that is not up may just have died. It stops the roll-out.
	Failed string
	// Drain lists hosts that wait until they have no guests, or for consent.
	Drain []string
}

// NextBatch decides which hosts get their configuration next: one at first, the canary, and when
// that has proved it as many as keep the unavailable ones within the budget; none after a failure.
// Hosts whose guests would be cut off wait until they have none, unless disrupt is true. It is
// pure, and remembers nothing: all that it needs was observed.
func NextBatch(hosts []HostState, disrupt bool, now time.Time) Batch {
	b := Batch{Waits: map[string]string{}}
	budget := max(1, len(hosts)*BudgetPercent/100)
	limit, moving, away := 1, 0, 0
	reaches := slices.ContainsFunc(hosts, func(h HostState) bool { return h.pending() && !h.Joining })
	for _, h := range hosts {
		if h.proved() {
			limit = budget
		}
		if h.moving(now) && !h.Joining {
			moving++
		}
		if !h.Up && !h.Joining {
			away++
		}
		if reaches && h.failed(now) && b.Failed == "" {
			b.Failed = h.Name
			b.Waits[h.Name] = fmt.Sprintf("the change has failed on it: it got its configuration at %s and %s; no other host gets the change; "+
				"repair the host, or change the declaration back and apply it", h.Given.UTC().Format(time.RFC3339), h.Problem)
		}
	}
	for _, h := range order(hosts) {
		if !h.pending() {
			continue
		}
		wait := ""
		switch {
		case h.Cuts && h.Guests > 0 && !disrupt:
			wait = fmt.Sprintf("the change restarts Open vSwitch and cuts off its %d guests; move them to other hosts, or accept the interruption: "+
				"regiond apply --disrupt", h.Guests)
			b.Drain = append(b.Drain, h.Name)
		case h.Joining:
		case b.Failed != "":
			wait = "the change has failed on host " + b.Failed
		case h.UpUnknown:
			wait = "Nova and Neutron can't be asked whether its services are up"
		case moving >= limit && limit == 1:
			wait = "another host gets the change before it, and is not up with it yet"
		case moving >= limit:
			wait = fmt.Sprintf("%d hosts get the change at a time", budget)
		case h.Up && away >= budget:
			wait = fmt.Sprintf("a change may make no more than %d of %d hosts unavailable, and as many are down", budget, len(hosts))
		}
		if wait != "" {
			b.Waits[h.Name] = wait
			continue
		}
		b.Go = append(b.Go, h.Name)
		if h.Joining {
			continue
		}
		moving++
		if h.Up {
			away++
		}
	}
	b.Moving = moving
	return b
}

// order has hosts that are not up first: they lose nothing, and the change may be what they need. Then it goes by name.
func order(hosts []HostState) []HostState {
	sorted := slices.Clone(hosts)
	slices.SortStableFunc(sorted, func(x, y HostState) int {
		if x.Up != y.Up {
			if y.Up {
				return -1
			}
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	return sorted
}
