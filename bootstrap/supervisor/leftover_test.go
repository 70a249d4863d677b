package supervisor_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/supervisor"
)

// After a kill -9 of the supervisor, no child may be left when the next one starts, whether it
// reacts to the parent's death or ignores it.
func TestLeftoversOfAKilledSupervisor(t *testing.T) {
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	first := exec.Command("/proc/self/exe", "supervisor", notes, dir)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	started := func() bool {
		b, err := os.ReadFile(notes)
		return err == nil && strings.Contains(string(b), "one started") && strings.Contains(string(b), "two started")
	}
	eventually(t, "the first supervisor's children", started)
	old := map[string]int{}
	for _, name := range []string{"one", "two"} {
		eventually(t, "pid file", func() bool {
			b, err := os.ReadFile(filepath.Join(dir, "run", name+".pid"))
			if err != nil {
				return false
			}
			var pid int
			_, err = fmt.Sscan(string(b), &pid)
			old[name] = pid
			return err == nil
		})
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // "signal: killed"
	eventually(t, "the end of the obedient child", func() bool { return !alive(old["one"]) })
	if !alive(old["two"]) {
		t.Fatal("the stubborn child has exited, so the test shows nothing")
	}

	specs := []supervisor.Spec{spec("one", "child", notes), spec("two", "child", notes)}
	specs[1].StopTimeout = 100 * time.Millisecond
	var aliveAtStart atomic.Bool
	specs[0].Gate = func(context.Context) error {
		aliveAtStart.Store(alive(old["two"]))
		return nil
	}
	second, err := supervisor.New(supervisor.Config{RunDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "log")}, specs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second.Run(ctx) }()
	if err := second.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if aliveAtStart.Load() {
		t.Error("a component was started while a leftover was still running")
	}
}

// A pid file may name a process that is not the child it was written for, if the pid was reused.
func TestPIDFileOfAnotherProcess(t *testing.T) {
	bystander := exec.Command("sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bystander.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = bystander.Wait() // "signal: killed"
	})
	dir := t.TempDir()
	for name, content := range map[string]string{
		"other":   fmt.Sprintf("%d 1\n", bystander.Process.Pid),
		"gone":    "4194303 5\n",
		"garbage": "hello\n",
		"init":    "1 1\n",
		"empty":   "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".pid"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := supervisor.EndLeftovers(t.Context(), dir, time.Second, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if !alive(bystander.Process.Pid) {
		t.Error("a process that only has the pid of a child was terminated")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("got %v left, %v; want nothing", left, err)
	}
}

// alive reports whether a process is running; a zombie, which only waits for its parent, is not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
	return !strings.HasPrefix(rest, " Z")
}
