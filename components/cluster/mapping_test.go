package cluster_test

import (
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/components/cluster"
)

func TestMappingBacksOff(t *testing.T) {
	done := cluster.Workload{Name: "discover-hosts", Job: true, Present: true}
	failed, running := done, done
	failed.Failed, failed.Waiting = now.Add(-10*time.Second), "it failed"
	running.Waiting = "it runs"
	tests := map[string]struct {
		mapping cluster.Workload
		ended   time.Duration // ago
		runs    int
		start   bool
	}{
		"first job":                      {mapping: cluster.Workload{}, start: true},
		"it runs":                        {mapping: running, runs: 1},
		"failed a moment ago":            {mapping: failed, runs: 1},
		"complete, for other hosts":      {mapping: done, ended: time.Second, start: true},
		"without effect":                 {mapping: done, ended: 10 * time.Second, runs: 1},
		"without effect, 30 s ago":       {mapping: done, ended: 30 * time.Second, runs: 1, start: true},
		"four times without effect":      {mapping: done, ended: 3 * time.Minute, runs: 4},
		"four times, 4 min ago":          {mapping: done, ended: 4 * time.Minute, runs: 4, start: true},
		"a hundred times, 14 min ago":    {mapping: done, ended: 14 * time.Minute, runs: 100},
		"a hundred times, 15 min ago":    {mapping: done, ended: 15 * time.Minute, runs: 100, start: true},
		"the ended one has been removed": {mapping: cluster.Workload{}, runs: 3, start: true},
	}
	for name, tt := range tests {
		f := settled()
		f.Nodes = []cluster.NodeFacts{{Name: "n1", Service: &cluster.ComputeService{ID: "a", Up: true, Enabled: true}}}
		f.Mapping, f.MappingEnded, f.MappingRuns = tt.mapping, now.Add(-tt.ended), tt.runs
		if d := cluster.Decide(f, now); d.Map != tt.start {
			t.Errorf("%s: got %v, want that a job is started: %v", name, d.Map, tt.start)
		}
	}
}

// A host that Nova does not map, whatever is run, costs a few jobs an hour.
func TestHostThatIsNeverMapped(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.stubborn = true
	w.host("node1", "10.99.0.101")
	w.cloud.register("node1", "9f2c1b1e-0000-4000-8000-000000000009")
	w.writes = nil
	for end := w.now.Add(10 * time.Minute); w.now.Before(end); {
		w.reconcile(c)
		w.agent("node1")
	}
	jobs := 0
	for _, v := range w.writes {
		if strings.HasPrefix(v, "create *v1.Job discover-hosts") {
			jobs++
		}
	}
	if jobs == 0 || jobs > 6 {
		t.Errorf("%d jobs in 10 minutes, want 1 to 6", jobs)
	}
	w.stubborn = false
	for end := w.now.Add(20 * time.Minute); w.now.Before(end) && !w.ready(); {
		w.reconcile(c)
		w.agent("node1")
	}
	if !w.ready() {
		t.Error("it is not mapped when that would succeed")
	}
}
