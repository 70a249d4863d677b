package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/components/plan"
)

var batchNow = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func TestNextBatch(t *testing.T) {
	hosts := func(n int, change func(i int, h *plan.HostState)) []plan.HostState {
		var all []plan.HostState
		for i := range n {
			h := plan.HostState{Name: fmt.Sprintf("h%02d", i), Desired: "new", Stored: "old", Up: true}
			change(i, &h)
			all = append(all, h)
		}
		return all
	}
	got := func(ago time.Duration, up bool) func(h *plan.HostState) {
		return func(h *plan.HostState) {
			h.Stored, h.Given, h.WasUp, h.Current, h.Up, h.Problem = "new", batchNow.Add(-ago), true, true, up, "its nova-compute does not report"
		}
	}
	only := func(n int, do func(h *plan.HostState)) func(int, *plan.HostState) {
		return func(i int, h *plan.HostState) {
			if i < n {
				do(h)
			}
		}
	}
	for _, c := range []struct {
		name    string
		hosts   []plan.HostState
		disrupt bool
		want    string // hosts that get the change
		wait    string // part of why the last host waits
		failed  string
	}{
		{"the canary goes first", hosts(30, func(int, *plan.HostState) {}), false, "h00", "another host gets the change first", ""},
		{"the canary has not proved it yet", hosts(30, only(1, got(time.Minute, false))), false, "", "another host gets the change first", ""},
		{"the canary has proved it", hosts(30, only(1, got(time.Minute, true))), false, "h01 h02 h03", "3 hosts get the change at a time", ""},
		{"two hosts", hosts(2, only(1, got(time.Minute, true))), false, "h01", "", ""},
		{"the canary fails", hosts(30, only(1, got(6*time.Minute, false))), false, "", "failed on host h00", "h00"},
		{"a later host fails", hosts(30, func(i int, h *plan.HostState) {
			if i < 3 {
				got(6*time.Minute, i != 2)(h)
			}
		}), false, "", "failed on host h02", "h02"},
		{"the failed host gets the repaired configuration first", hosts(30, only(1, func(h *plan.HostState) {
			got(6*time.Minute, false)(h)
			h.Stored = "broken"
		})), false, "h00", "another host gets the change first", ""},
		{"an earlier declaration's proof does not count", hosts(30, only(1, func(h *plan.HostState) {
			got(time.Hour, true)(h)
			h.Current = false
		})), false, "h01", "another host gets the change first", ""},
		{"a host that was down before proves nothing and stops nothing", hosts(30, only(1, func(h *plan.HostState) {
			got(6*time.Minute, false)(h)
			h.WasUp = false
		})), false, "h01", "another host gets the change first", ""},
		{"the maximum number of hosts is down", hosts(10, only(1, func(h *plan.HostState) {
			got(6*time.Minute, false)(h)
			h.WasUp = false
		})), false, "", "at most 1 of 10 hosts unavailable", ""},
		{"joining hosts do not wait", hosts(30, only(5, func(h *plan.HostState) { h.Stored, h.Up, h.Joining = "", false, true })), false,
			"h00 h01 h02 h03 h04 h05", "another host gets the change first", ""},
		{"Nova and Neutron can't be queried", hosts(30, func(_ int, h *plan.HostState) { h.Up, h.UpUnknown = false, true }), false, "", "can't query", ""},
		{"guests would be cut off", hosts(2, func(_ int, h *plan.HostState) { h.Cuts, h.Guests = true, 3 }), false, "", "cuts off its 3 guests", ""},
		{"guests are cut off by consent", hosts(2, func(_ int, h *plan.HostState) { h.Cuts, h.Guests = true, 3 }), true, "h00", "another host gets the change first", ""},
		{"an empty host goes before those with guests", hosts(2, func(i int, h *plan.HostState) { h.Cuts, h.Guests = true, 1-i }), false, "h01", "", ""},
		{"guests do not block other changes", hosts(2, func(_ int, h *plan.HostState) { h.Guests = 3 }), false, "h00", "another host gets the change first", ""},
		{"a host that dies when all have it has not failed", hosts(3, func(i int, h *plan.HostState) { got(500*time.Hour, i > 0)(h) }), false, "", "", ""},
		{"a host that dies when all have it does not stop a joining one", hosts(3, func(i int, h *plan.HostState) {
			got(500*time.Hour, i > 0)(h)
			if i == 1 {
				h.Stored, h.Up, h.Joining = "", false, true
			}
		}), false, "h01", "", ""},
		{"a host that died with an earlier declaration does not stop this one", hosts(30, only(1, func(h *plan.HostState) {
			got(500*time.Hour, false)(h)
			h.Current = false
		})), false, "h01", "another host gets the change first", ""},
		{"all have it", hosts(3, only(3, got(time.Hour, true))), false, "", "", ""},
	} {
		b := plan.NextBatch(c.hosts, c.disrupt, batchNow)
		last := c.hosts[len(c.hosts)-1].Name
		if got := strings.Join(b.Go, " "); got != c.want || b.Failed != c.failed || !strings.Contains(b.Waits[last], c.wait) || c.wait == "" && b.Waits[last] != "" {
			t.Errorf("%s: got %q to go, failed %q, %s waits for %q; want %q, %q, %q", c.name, got, b.Failed, last, b.Waits[last], c.want, c.failed, c.wait)
		}
	}
}

// fleet is a cluster's hosts as observed. Its only state is what the API server would hold.
type fleet struct {
	now   time.Time
	hosts []plan.HostState
	// ready is when a host is up with its configuration, zero if it never will be.
	ready map[string]time.Time
}

func newFleet(n int) *fleet {
	f := &fleet{now: batchNow, ready: map[string]time.Time{}}
	for i := range n {
		f.hosts = append(f.hosts, plan.HostState{Name: fmt.Sprintf("h%04d", i), Desired: "new", Stored: "old", Up: true})
	}
	return f
}

func (f *fleet) down() (n int) {
	for _, h := range f.hosts {
		if !h.Up {
			n++
		}
	}
	return n
}

// step advances time by ten seconds and gives the hosts of the next batch their configuration.
func (f *fleet) step(breaks func(name string) bool, takes time.Duration) plan.Batch {
	f.now = f.now.Add(10 * time.Second)
	for i := range f.hosts {
		if at, due := f.ready[f.hosts[i].Name]; due && !f.now.Before(at) {
			f.hosts[i].Up = true
		}
	}
	b := plan.NextBatch(f.hosts, false, f.now)
	for _, name := range b.Go {
		h := &f.hosts[slices.IndexFunc(f.hosts, func(h plan.HostState) bool { return h.Name == name })]
		h.WasUp, h.Stored, h.Given, h.Current, h.Up = h.Up, h.Desired, f.now, true, false
		delete(f.ready, name)
		if !breaks(name) {
			f.ready[name] = f.now.Add(takes)
		}
	}
	return b
}

// TestRollOutSimulated: fleets of any size get a change, one host first, and never more hosts are
// unavailable than the budget allows. NextBatch gets only observed facts, so every step is that of
// a regiond that has just started.
func TestRollOutSimulated(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 9, 10, 37, 200} {
		f, budget := newFleet(n), max(1, n*plan.BudgetPercent/100)
		proved := false
		for step := range 10000 {
			b := f.step(func(string) bool { return false }, time.Duration(random.IntN(60))*time.Second)
			proved = proved || slices.ContainsFunc(f.hosts, func(h plan.HostState) bool { return h.Stored == "new" && h.Up })
			if down := f.down(); down > budget || !proved && down > 1 {
				t.Fatalf("%d hosts, step %d: %d are down, budget %d, proved %v", n, step, down, budget, proved)
			}
			if b.Failed != "" {
				t.Fatalf("%d hosts: failed on %s: %s", n, b.Failed, b.Waits[b.Failed])
			}
		}
		if i := slices.IndexFunc(f.hosts, func(h plan.HostState) bool { return h.Stored != "new" || !h.Up }); i >= 0 {
			t.Errorf("%d hosts: got %+v, want the change on it", n, f.hosts[i])
		}
	}
}

func TestFailureStopsTheRollOut(t *testing.T) {
	for _, fails := range []int{1, 2, 30} { // the canary, the first of the next batch, a later one
		f, given := newFleet(100), 0
		breaks := func(string) bool { given++; return given >= fails }
		var b plan.Batch
		for range 1000 {
			b = f.step(breaks, 20*time.Second)
		}
		if b.Failed == "" || len(b.Go) > 0 {
			t.Fatalf("host %d fails: %+v", fails, b)
		}
		if down := f.down(); down > 10 || fails == 1 && down != 1 {
			t.Errorf("host %d fails: %d are down", fails, down)
		}
		// The repaired configuration reaches the hosts that are down first, and then all others.
		for i := range f.hosts {
			f.hosts[i].Desired, f.hosts[i].Current = "repaired", false
		}
		for range 1000 {
			f.step(func(string) bool { return false }, 20*time.Second)
		}
		if i := slices.IndexFunc(f.hosts, func(h plan.HostState) bool { return h.Stored != "repaired" || !h.Up }); i >= 0 {
			t.Errorf("host %d failed: got %+v, want the repaired configuration on it", fails, f.hosts[i])
		}
	}
}
