package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// ways of a host, as a test says.
type ways struct {
	mu     sync.Mutex
	found  *region.HostTunnels
	err    error
	looks  int
	before *region.HostTunnels
}

func (w *ways) look(_ context.Context, before *region.HostTunnels) (*region.HostTunnels, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks, w.before = w.looks+1, before
	return w.found.DeepCopy(), w.err
}

func (w *ways) set(found *region.HostTunnels, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found, w.err, w.looks = found, err, 0
}

func (w *ways) seen() (looks int, before *region.HostTunnels) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks, w.before
}

// tunnelAgent is an agent that looks at its tunnels every few milliseconds.
func tunnelAgent(t *testing.T, dir string, w *ways) (stop func()) {
	t.Helper()
	a, err := New(Config{DataDir: dir, StateFile: filepath.Join(dir, "run", "agent.json"), Version: "v1", Observer: fakeObserver(t), Tunnels: w.look,
		HeartbeatEvery: 10 * time.Millisecond, ObserveEvery: 20 * time.Millisecond, CompareEvery: 50 * time.Millisecond, TunnelsEvery: 20 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestTunnelsAreReported: what large packets don't get to is in the status until it is seen to be
// right, and not written again and again.
func TestTunnelsAreReported(t *testing.T) {
	r, id := newFakeRegion(t)
	dir := t.TempDir()
	writeIdentity(t, dir, id)
	w := &ways{found: &region.HostTunnels{MTU: 1500, Blocked: []string{"10.0.0.2", "10.0.0.3"}}}
	stop := tunnelAgent(t, dir, w)
	blocked := func() []string {
		if r.host.Status.Tunnels == nil {
			return nil
		}
		return r.host.Status.Tunnels.Blocked
	}
	told := func() *metav1.Condition {
		return meta.FindStatusCondition(r.host.Status.Conditions, region.ConditionTunnels)
	}
	r.see("the blocked ways", func() bool { return slices.Equal(blocked(), []string{"10.0.0.2", "10.0.0.3"}) })
	r.set(func() {
		c := told()
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != region.ReasonTunnelsBlocked || !strings.Contains(c.Message, "packets of 1500 bytes") ||
			!strings.Contains(c.Message, "don't get to 10.0.0.2, 10.0.0.3") || !strings.Contains(c.Message, "set an MTU of at least 1500") {
			t.Errorf("got condition %+v, want one that names the other ends and the remedy", c)
		}
	})
	w.set(&region.HostTunnels{MTU: 1500, Blocked: []string{"10.0.0.2", "10.0.0.3"}}, nil)
	writes := 0
	r.set(func() { writes = r.writes })
	r.see("more looks", func() bool { looks, _ := w.seen(); return looks > 5 })
	r.set(func() {
		if r.writes != writes {
			t.Errorf("the same was written %d times", r.writes-writes)
		}
	})
	if _, before := w.seen(); before == nil || !slices.Equal(before.Blocked, []string{"10.0.0.2", "10.0.0.3"}) {
		t.Errorf("a look was given %+v, want what was found before", before)
	}
	stop()

	// An agent that can't look takes nothing back.
	w.set(nil, errors.New("the database is away"))
	stop = tunnelAgent(t, dir, w)
	r.see("more looks", func() bool { looks, _ := w.seen(); return looks > 5 })
	r.set(func() {
		if len(blocked()) != 2 || told() == nil || told().Status != metav1.ConditionFalse {
			t.Errorf("got %v and %+v, want what was found before", blocked(), told())
		}
	})
	w.set(&region.HostTunnels{MTU: 1500}, nil)
	r.see("that all pass", func() bool {
		return r.host.Status.Tunnels != nil && len(blocked()) == 0 && told() != nil && told().Status == metav1.ConditionTrue
	})
	w.set(nil, nil)
	r.see("that there are none", func() bool { return told() == nil && r.host.Status.Tunnels != nil && r.host.Status.Tunnels.MTU == 0 })
	stop()
}
