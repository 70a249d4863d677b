package supervisor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"regiond.dev/regiond/bootstrap/supervisor"
)

func TestRestart(t *testing.T) {
	// With a stopped clock: a requested restart must not wait for the back-off.
	clock := clocktesting.NewFakeClock(time.Now())
	h := start(t, clock, func(notes string) []supervisor.Spec {
		return []supervisor.Spec{spec("a", "child", notes), spec("b", "child", notes, "a"), spec("broken", "failing", notes)}
	})
	if err := h.WaitReady(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	other := h.state("b")
	for i := range 3 {
		before := h.state("a")
		eventually(t, "its start", func() bool { return strings.Count(strings.Join(h.noted(t), "\n"), "a started") == i+1 })
		if err := h.Restart(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if now := h.state("a"); !now.Ready || now.PID == before.PID || now.Restarts != i+1 || now.LastExit != "" {
			t.Errorf("%+v, was %+v", now, before)
		}
	}
	if got := strings.Count(strings.Join(h.noted(t), "\n"), "a stopped"); got != 3 {
		t.Errorf("got %d orderly stops, want 3", got)
	}
	if h.state("b") != other {
		t.Errorf("the other component changed: %+v, was %+v", h.state("b"), other)
	}
	// If the component does not come back, the error says why, and the request does not bypass the
	// back-off.
	eventually(t, "its failure", func() bool { return h.state("broken").LastExit != "" && clock.HasWaiters() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Restart(ctx, "broken"); err == nil || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("restart of a failing component: got %v, want its cause", err)
	}
	if n := h.state("broken").Restarts; n != 0 {
		t.Errorf("got %d starts without back-off", n)
	}
	if err := h.Restart(t.Context(), "c"); err == nil {
		t.Error("got no error for an unknown component")
	}
}

// A restart that is requested while no process runs is served by the next start.
func TestRestartWhileNotRunning(t *testing.T) {
	open := make(chan struct{})
	h := start(t, nil, func(notes string) []supervisor.Spec {
		a := spec("a", "child", notes)
		a.Gate = func(ctx context.Context) error {
			select {
			case <-open:
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		}
		return []supervisor.Spec{a}
	})
	eventually(t, "its gate", func() bool { return h.state("a").Waiting == "waiting for its gate" })
	restarted := make(chan error, 1)
	go func() { restarted <- h.Restart(context.Background(), "a") }()
	close(open)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	if a := h.state("a"); !a.Ready {
		t.Errorf("%+v", a)
	}
}
