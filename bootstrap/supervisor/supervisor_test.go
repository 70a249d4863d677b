package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"regiond.dev/regiond/bootstrap/supervisor"
)

// The test binary also plays the children, whose part is the first argument. Each appends its
// actions to the file in the second.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "child": // exits when told to
			terminated := make(chan os.Signal, 1)
			signal.Notify(terminated, syscall.SIGTERM)
			note("started")
			<-terminated
			note("stopped")
			os.Exit(0)
		case "stubborn": // exits only when killed
			signal.Ignore(syscall.SIGTERM)
			note("started")
			for {
				_ = syscall.Pause() // EINTR, always
			}
		case "failing":
			note("started")
			fmt.Println("out of luck")
			os.Exit(3)
		case "supervisor": // a supervisor that will be killed: supervisor NOTES DIR
			s, err := supervisor.New(supervisor.Config{RunDir: filepath.Join(os.Args[3], "run"), LogDir: filepath.Join(os.Args[3], "log")},
				[]supervisor.Spec{spec("one", "child", os.Args[2]), spec("two", "stubborn", os.Args[2])})
			if err == nil {
				err = s.Run(context.Background())
			}
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// note appends "<own name> <what>" to the file of notes; short appends are atomic.
func note(what string) {
	f, err := os.OpenFile(os.Args[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %s\n", os.Args[0], what)
	}
	if err != nil {
		panic(err)
	}
}

func spec(name, part, notes string, after ...string) supervisor.Spec {
	return supervisor.Spec{Name: name, Path: "/proc/self/exe", Args: []string{name, part, notes}, After: after}
}

type harness struct {
	*supervisor.Supervisor
	dir, notes string
	stop       func() // and wait
}

func start(t *testing.T, clock *clocktesting.FakeClock, specs func(notes string) []supervisor.Spec) *harness {
	t.Helper()
	h := &harness{dir: t.TempDir()}
	h.notes = filepath.Join(h.dir, "notes")
	config := supervisor.Config{RunDir: filepath.Join(h.dir, "run"), LogDir: filepath.Join(h.dir, "log"), Log: slog.New(slog.DiscardHandler)}
	if clock != nil {
		config.Clock = clock
	}
	var err error
	if h.Supervisor, err = supervisor.New(config, specs(h.notes)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	var stopped atomic.Bool
	h.stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(h.stop)
	return h
}

func (h *harness) state(name string) supervisor.Component {
	for _, c := range h.Snapshot() {
		if c.Name == name {
			return c
		}
	}
	return supervisor.Component{}
}

func (h *harness) noted(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(h.notes)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// eventually waits for a condition, with a deadline that only a broken supervisor reaches.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	h := start(t, nil, func(notes string) []supervisor.Spec {
		// A component is ready once it has noted its start.
		probe := func(name string) func(context.Context) error {
			return func(context.Context) error {
				if b, err := os.ReadFile(notes); err != nil || !strings.Contains(string(b), name+" started") {
					return errors.New("not yet")
				}
				return nil
			}
		}
		a, b, c := spec("a", "child", notes), spec("b", "child", notes, "a"), spec("c", "child", notes, "a", "b")
		a.Probe, b.Probe, c.Probe = probe("a"), probe("b"), probe("c")
		return []supervisor.Spec{a, b, c}
	})
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range h.Snapshot() {
		if c.PID == 0 || !c.Ready || c.Since.IsZero() || c.Restarts != 0 || c.LastExit != "" {
			t.Errorf("running component: got %+v, want a pid and ready", c)
		}
	}
	h.stop()
	want := []string{"a started", "b started", "c started", "c stopped", "b stopped", "a stopped"}
	if got := h.noted(t); !slices.Equal(got, want) {
		t.Errorf("got the order %v, want %v", got, want)
	}
	for _, c := range h.Snapshot() {
		if c.PID != 0 || c.Ready {
			t.Errorf("stopped component: got %+v, want no pid and not ready", c)
		}
	}
}

func TestKilledChildComesBack(t *testing.T) {
	h := start(t, nil, func(notes string) []supervisor.Spec {
		return []supervisor.Spec{spec("a", "child", notes), spec("b", "child", notes)}
	})
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, other := h.state("a"), h.state("b")
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process", func() bool { c := h.state("a"); return c.Ready && c.PID != first.PID })
	now := h.state("a")
	if now.Restarts != 1 || !strings.Contains(now.LastExit, "killed") {
		t.Errorf("%+v", now)
	}
	if h.state("b") != other {
		t.Errorf("the other component changed: %+v, was %+v", h.state("b"), other)
	}
}

func TestBackOffDoublesAndResets(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	h := start(t, clock, func(notes string) []supervisor.Spec { return []supervisor.Spec{spec("a", "failing", notes)} })
	starts := func() int { return strings.Count(strings.Join(h.noted(t), "\n"), "started") }
	for i, wait := range []time.Duration{200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		wait *= time.Millisecond
		eventually(t, "a failure", func() bool { return starts() == i+1 && clock.HasWaiters() })
		clock.Step(wait - time.Millisecond)
		if !clock.HasWaiters() {
			t.Fatalf("failure %d: the wait was shorter than %s", i+1, wait)
		}
		clock.Step(time.Millisecond)
	}
	eventually(t, "the last failure", func() bool { return clock.HasWaiters() })
	if c := h.state("a"); c.LastExit != "exit status 3: out of luck" || c.Restarts != 10 {
		t.Errorf("%+v", c)
	}
	h.stop() // while waiting

	h = start(t, clock, func(notes string) []supervisor.Spec { return []supervisor.Spec{spec("a", "child", notes)} })
	for i := range 3 {
		eventually(t, "a process", func() bool { return h.state("a").PID != 0 && starts() == i+1 })
		clock.Step(time.Minute) // a stable run
		pid := h.state("a").PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its end", func() bool { return h.state("a").PID == 0 && clock.HasWaiters() })
		clock.Step(200 * time.Millisecond) // the first back-off, each time
	}
	eventually(t, "the last process", func() bool { return starts() == 4 })
}

func TestGate(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	var open atomic.Bool
	h := start(t, clock, func(notes string) []supervisor.Spec {
		a := spec("a", "child", notes)
		a.Gate = func(context.Context) error {
			if !open.Load() {
				return errors.New("closed")
			}
			return nil
		}
		return []supervisor.Spec{a, spec("b", "child", notes, "a")}
	})
	eventually(t, "the gate's error", func() bool { return h.state("a").LastExit == "not started: closed" && clock.HasWaiters() })
	if b := h.state("b"); b.PID != 0 || b.Waiting != "waiting for a to be ready" {
		t.Errorf("%+v", b)
	}
	open.Store(true)
	clock.Step(time.Minute)
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := h.state("a"); a.Restarts != 0 || a.Waiting != "" {
		t.Errorf("%+v", a)
	}
}

// A gate or dependency may never become ready; a stop must not wait for it.
func TestStopWhileWaiting(t *testing.T) {
	h := start(t, nil, func(notes string) []supervisor.Spec {
		a := spec("a", "child", notes)
		a.Gate = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		return []supervisor.Spec{a, spec("b", "child", notes, "a")}
	})
	eventually(t, "waiting", func() bool { return h.state("b").Waiting != "" })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.WaitReady(ctx, "b"); err == nil || !strings.Contains(err.Error(), "[b]") {
		t.Errorf("waiting for b: got %v, want a timeout that names it", err)
	}
	h.stop()
}

func TestStubbornChildIsKilled(t *testing.T) {
	h := start(t, nil, func(notes string) []supervisor.Spec {
		a := spec("a", "stubborn", notes)
		a.StopTimeout = 50 * time.Millisecond
		return []supervisor.Spec{a}
	})
	eventually(t, "its start", func() bool { return h.state("a").PID != 0 && slices.Contains(h.noted(t), "a started") })
	pid := h.state("a").PID
	h.stop()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d still exists: %v", pid, err)
	}
}

func TestLog(t *testing.T) {
	h := start(t, nil, func(notes string) []supervisor.Spec { return []supervisor.Spec{spec("a", "failing", notes)} })
	eventually(t, "two runs", func() bool { return h.state("a").Restarts > 1 })
	h.stop()
	path := filepath.Join(h.dir, "log", "a.log")
	b, err := os.ReadFile(path)
	if err != nil || strings.Count(string(b), "out of luck\n") < 2 {
		t.Errorf("log of two runs: got %q %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestNewRefuses(t *testing.T) {
	good := supervisor.Spec{Name: "a", Path: "/bin/true", Args: []string{"a"}}
	for name, specs := range map[string][]supervisor.Spec{
		"no name":      {{Path: "/bin/true", Args: []string{"a"}}},
		"no arguments": {{Name: "a", Path: "/bin/true"}},
		"twice":        {good, good},
		"forward":      {{Name: "b", Path: "/bin/true", Args: []string{"b"}, After: []string{"a"}}, good},
	} {
		if _, err := supervisor.New(supervisor.Config{}, specs); err == nil {
			t.Errorf("%s: got no error, want a refusal", name)
		}
	}
}
