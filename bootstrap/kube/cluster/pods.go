package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killPods kills the shims that belong to a containerd socket and their containers, and removes the
// shims' own sockets. Only shims in our own mount namespace belong to it: a lab's seed host has a
// socket with the same path.
func killPods(ctx context.Context, socket string, log *slog.Logger) error {
	var all error
	for ctx.Err() == nil {
		processes, err := readProcesses()
		if err != nil {
			return errors.Join(all, err)
		}
		doomed := podProcesses(processes, func(p process) bool { return sameSocket(shimSocket(p.args), socket) && sharesMounts(p.pid) })
		if len(doomed) == 0 {
			return errors.Join(all, removeShimSockets(socket))
		}
		log.Info("killing pods' processes", slog.Int("count", len(doomed)))
		// Repeat until none is left, because a shim may have started one meanwhile.
		for _, p := range doomed {
			if err := kill(ctx, p); err != nil {
				return errors.Join(all, err)
			}
		}
	}
	return errors.Join(all, context.Cause(ctx))
}

// process has the facts about a process that decide whether to kill it.
type process struct {
	pid, parent int
	args        []string
}

// podProcesses returns our shims and all their descendants. A shim adopts the orphans of its
// containers (it is their subreaper), so these are all processes of a pod.
func podProcesses(all []process, isOurs func(process) bool) []process {
	var out []process
	ours := map[int]bool{}
	for _, p := range all {
		if shimSocket(p.args) != "" && isOurs(p) {
			ours[p.pid] = true
			out = append(out, p)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if ours[p.parent] && !ours[p.pid] {
				ours[p.pid] = true
				out = append(out, p)
				grown = true
			}
		}
	}
	return out
}

// shimSocket returns the socket of the containerd that a shim reports to, empty for other
// processes.
func shimSocket(args []string) string {
	if len(args) == 0 || !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") {
		return ""
	}
	for i, a := range args[:len(args)-1] {
		if a == "-address" {
			return args[i+1]
		}
	}
	return ""
}

// sameSocket compares paths of sockets, which need not exist, after resolving symbolic links: a
// data directory may be one.
func sameSocket(a, b string) bool {
	if a == b {
		return true
	}
	x, xerr := filepath.EvalSymlinks(filepath.Dir(a))
	y, yerr := filepath.EvalSymlinks(filepath.Dir(b))
	return xerr == nil && yerr == nil && x == y && filepath.Base(a) == filepath.Base(b)
}

// sharesMounts reports whether a process is in our mount namespace, where paths have the same
// meaning.
func sharesMounts(pid int) bool {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return err == nil && theirs == ours
}

func readProcesses() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// readProcess reads a process unless it has exited meanwhile or is a zombie.
func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The name in parentheses may contain any characters (proc_pid_stat(5)).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || string(fields[0]) == "Z" {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return process{}, false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, parent: parent, args: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")}, true
}

// kill kills a process and waits for it to exit. It compares the process again through a
// descriptor, which can't refer to another process later.
func kill(ctx context.Context, p process) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.pid, err)
	}
	defer func() { _ = unix.Close(fd) }() // not written to
	now, ok := readProcess(p.pid)
	if !ok || strings.Join(now.args, "\x00") != strings.Join(p.args, "\x00") {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", p.pid, err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for process %d to exit: %w", p.pid, err)
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d (%s) did not exit after SIGKILL; see its state in /proc (D: waiting for a device), and reboot if necessary", p.pid, p.args[0])
}

// removeShimSockets removes the sockets that the shims' bundles name.
func removeShimSockets(socket string) error {
	bundles, err := filepath.Glob(filepath.Join(filepath.Dir(socket), "state", "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return err
	}
	var all error
	for _, b := range bundles {
		address, err := os.ReadFile(b)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		path := strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://")
		if filepath.Base(filepath.Dir(path)) != "s" { // only in the folder of shims' sockets
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}
