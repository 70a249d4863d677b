package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper is the only one that waits for processes here: those that were started, and the orphans that every PID 1 inherits.
// os/exec would wait by itself, and each would take the other's.
type reaper struct {
	mu       sync.Mutex
	children map[int]*child
}

// child is a process that was started.
type child struct {
	pid int
	// done is closed when it has ended; status is valid then.
	done   chan struct{}
	status syscall.WaitStatus
}

func newReaper() *reaper { return &reaper{children: map[int]*child{}} }

// run reaps until the context ends.
func (r *reaper) run(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		r.reap()
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
	}
}

func (r *reaper) reap() {
	// A child must be known before its end is seen: start holds the lock while it forks.
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := r.children[pid]; c != nil && (status.Exited() || status.Signaled()) {
			c.status = status
			close(c.done)
			delete(r.children, pid)
		}
	}
}

// start starts a process. An error is of execve(2) or what was to be set up before it.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := &child{pid: pid, done: make(chan struct{})}
	r.children[pid] = c
	return c, nil
}

// signal sends a signal to a child, unless it has ended: its number may be another's then.
func (r *reaper) signal(c *child, s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.children[c.pid] == c {
		_ = unix.Kill(c.pid, s) // it may be a zombie by now, which takes any signal
	}
}

func ended(c *child) bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// exitText says how a process ended.
func exitText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", s.Signal(), s.Signal())
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
