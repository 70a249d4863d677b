package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of how a changed configuration is rolled out to the hosts of a cluster.
const (
	// BudgetPercent is the percentage of a cluster's hosts, but at least one host, that a change may
	// make unavailable at a time.
	BudgetPercent = 10
	// ProofLimit is how long a host has from getting a configuration to running it with its services
	// up. After that, the change has failed on it, and no other host gets it.
	ProofLimit = 5 * time.Minute
)

// HostState is what determines whether a host gets its configuration now.
type HostState struct {
	Name string
	// Desired and Stored are the digests of its desired configuration and of the one that was last
	// written for it.
	Desired, Stored string
	// Given is when Stored was written, WasUp whether the host was up then, Current whether it was for
	// the current declaration.
	Given          time.Time
	WasUp, Current bool
	// Up: it runs the stored configuration, and its services are up. UpUnknown: Nova and Neutron could
	// not be queried.
	Up, UpUnknown bool
	// Problem says why it is not up.
	Problem string
	// Joining hosts get their first configuration, or their first registration: they run nothing that
	// could be disturbed.
	Joining bool
	// Cuts: the change restarts services that carry guests' traffic. Guests is how many guests the
	// host has.
	Cuts   bool
	Guests int
}

// pending reports whether the host still has to get its desired configuration.
func (h HostState) pending() bool { return h.Stored != h.Desired }

// moving reports whether the host got its configuration recently and is not up with it yet.
func (h HostState) moving(now time.Time) bool {
	return !h.pending() && !h.Up && !h.Given.IsZero() && now.Sub(h.Given) <= ProofLimit
}

// failed reports whether the host was up before it got the current declaration's configuration, and
// is not up with it. A host that was down before proves nothing, and one with an earlier
// declaration's configuration proves nothing about this one.
func (h HostState) failed(now time.Time) bool {
	return !h.pending() && !h.Up && !h.UpUnknown && h.WasUp && h.Current && !h.Given.IsZero() && now.Sub(h.Given) > ProofLimit
}

// proved reports whether the host has proved that the current declaration works.
func (h HostState) proved() bool { return !h.pending() && h.Up && h.WasUp && h.Current }

// Batch says which hosts get their configuration now, and why the others wait.
type Batch struct {
	Go []string
	// Moving is how many hosts get their configuration now, or have got it and may still come up with
	// it.
	Moving int
	// Waits says why each waiting host waits. Many hosts share the same text, and it changes rarely.
	Waits map[string]string
	// Failed is the host on which the change has failed, which stops the rollout. It is empty if there
	// is none, or if all hosts already have the change: a host that is down may then simply have died.
	Failed string
	// Drain lists hosts that wait until they have no guests, or for the operator's consent.
	Drain []string
}

// NextBatch decides which hosts get their configuration next: first one host, the canary; once it
// has proved the change, as many as keep the unavailable ones within the budget; none after a
// failure. Hosts whose guests would be cut off wait until they have none, unless disrupt is true.
// It is pure and keeps no state: it needs only observed facts.
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
			b.Waits[h.Name] = fmt.Sprintf("the change has failed on this host: it got its configuration at %s and %s; no other host gets the change; "+
				"repair the host, or revert the declaration and apply it", h.Given.UTC().Format(time.RFC3339), h.Problem)
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
			wait = "can't query Nova and Neutron whether its services are up"
		case moving >= limit && limit == 1:
			wait = "another host gets the change first and is not up with it yet"
		case moving >= limit:
			wait = fmt.Sprintf("%d hosts get the change at a time", budget)
		case h.Up && away >= budget:
			wait = fmt.Sprintf("a change may make at most %d of %d hosts unavailable, and that many are down", budget, len(hosts))
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

// order sorts hosts that are down first: they lose nothing, and the change may be what they need;
// then by name.
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
