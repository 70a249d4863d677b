//go:build integration

package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The first process of a PID namespace that was killed waits until all others of it are gone: as
// long as that, it is not started again.
func TestFirstProcessOfNamespaceIsWaitedFor(t *testing.T) {
	l := Lab{Name: "t", Root: t.TempDir()}
	first := exec.Command("sleep", "1000")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	second := startIn(t, first.Process.Pid)
	if err := l.recordProcess("seed", first.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	// The second one is a zombie from now on, for which this process has not waited: the first can't end.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := l.awaitEnd(ctx, "seed"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it ends: got %v, want that it is waited for", err)
	}
	if pid, err := l.process("seed"); err != nil || pid != 0 {
		t.Errorf("while it ends: got pid %d, %v, want that it does not run", pid, err)
	}
	_ = second.Wait() // it was killed
	if err := l.awaitEnd(t.Context(), "seed"); err != nil {
		t.Error(err)
	}
	_ = first.Wait() // it was killed
}

// startIn starts a process in the PID namespace of another, as a child of this one.
func startIn(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			err = errors.Join(unix.Setns(fd, unix.CLONE_NEWPID), unix.Close(fd))
		}
		if err == nil {
			err = cmd.Start()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return cmd
}
