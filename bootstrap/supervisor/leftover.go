package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// identity identifies a process even if its pid is reused, by its start time (clock ticks since
// boot).
type identity struct {
	pid   int
	start uint64
}

func (s *Supervisor) pidFile(name string) string { return filepath.Join(s.config.RunDir, name+".pid") }

// writePIDFile records a child as "pid start-time".
func writePIDFile(path string, pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("pid file %s: %w", path, err)
	}
	// Not flushed: it is only needed after a crash of this process, and a reboot makes it obsolete.
	temporary := path + ".new"
	if err := os.WriteFile(temporary, fmt.Appendf(nil, "%d %d\n", pid, start), 0o644); err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	return nil
}

// startTime returns field 22 of /proc/<pid>/stat (proc_pid_stat(5)). The second field, the name in
// parentheses, may contain any characters.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: unexpected content %q", pid, b)
	}
	if fields[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/stat: start time: %w", pid, err)
	}
	return start, nil
}

func readPIDFile(path string) (identity, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return identity{}, err
	}
	var id identity
	if _, err := fmt.Sscanf(string(b), "%d %d", &id.pid, &id.start); err != nil || id.pid <= 1 {
		return identity{}, fmt.Errorf("pid file %s holds %q: %w", path, b, fs.ErrInvalid)
	}
	return id, nil
}

// endLeftover terminates the process that a pid file names, if it is still running: SIGTERM, then
// SIGKILL after the deadline.
func endLeftover(ctx context.Context, path string, timeout time.Duration, log *slog.Logger) error {
	id, err := readPIDFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if err := id.end(ctx, timeout, log); err != nil {
			return fmt.Errorf("process %d was left by an earlier run (%s): %w", id.pid, path, err)
		}
	} else if !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing an old pid file: %w", err)
	}
	return nil
}

// end terminates the process with this identity, if there is one. The pidfd guarantees that the
// signalled process is the one that was compared.
func (id identity) end(ctx context.Context, timeout time.Duration, log *slog.Logger) error {
	fd, err := unix.PidfdOpen(id.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // not written to
	if start, err := startTime(id.pid); err != nil || start != id.start {
		return nil // exited, or its number was reused
	}
	for _, step := range []struct {
		signal unix.Signal
		wait   time.Duration
	}{{unix.SIGTERM, timeout}, {unix.SIGKILL, 5 * time.Second}} {
		log.Warn("terminating a process left by an earlier run", slog.Int("pid", id.pid), slog.String("signal", step.signal.String()))
		if err := unix.PidfdSendSignal(fd, step.signal, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("signalling it: %w", err)
		}
		ended, err := waitPidfd(ctx, fd, step.wait)
		if ended || err != nil {
			return err
		}
	}
	return errors.New("it did not exit after SIGKILL; see its state in /proc (D: waiting for a device), and reboot if necessary")
}

// waitPidfd waits until the process of a pidfd has exited: the descriptor then polls as readable
// (pidfd_open(2)).
func waitPidfd(ctx context.Context, fd int, timeout time.Duration) (bool, error) {
	const slice = 100 * time.Millisecond // to notice a cancelled context
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(slice.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("waiting for it to exit: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// EndLeftovers terminates every running process that an earlier run has recorded in runDir.
func EndLeftovers(ctx context.Context, runDir string, timeout time.Duration, log *slog.Logger) error {
	files, err := filepath.Glob(filepath.Join(runDir, "*.pid"))
	if err != nil {
		return fmt.Errorf("looking for leftovers in %s: %w", runDir, err)
	}
	var all error
	for _, f := range files {
		all = errors.Join(all, endLeftover(ctx, f, timeout, log))
	}
	return all
}
