package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/test/lab/namespace"
)

// Files of a lab, below its folder.
const (
	fileLab         = "lab.json"
	fileRegion      = "region.yaml"
	fileCredentials = "secrets/bmc.yaml"
	dirSeed         = "seed" // the seed host's data directory
	dirLog          = "log"
)

func (l Lab) dir() string             { return filepath.Join(l.Root, l.Name) }
func (l Lab) file(name string) string { return filepath.Join(l.dir(), name) }

// SeedDir is the seed host's data directory as this machine sees it; the seed host itself has it at SeedData.
func (l Lab) SeedDir() string { return l.file(dirSeed) }

// SeedNetwork and rack are the two network namespaces of a lab: the seed host's, and that of everything that
// it reaches by cable.
func (l Lab) SeedNetwork() namespace.Namespace {
	return namespace.Namespace{Name: "rl-" + l.Name + "-seed"}
}
func (l Lab) rack() namespace.Namespace { return namespace.Namespace{Name: "rl-" + l.Name + "-hw"} }

// cgroup of the seed host's processes, below the root of every hierarchy.
func (l Lab) cgroup() string { return "regiond-lab-" + l.Name }

// Open finds a lab that was brought up.
func Open(root, name string) (Lab, error) {
	if err := CheckName(name); err != nil {
		return Lab{}, err
	}
	l := Lab{Name: name, Root: root}
	b, err := os.ReadFile(l.file(fileLab))
	if errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("no lab %q in %s: `regiond lab up --lab %s` makes it", name, root, name)
	}
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(b, &l.Spec); err != nil {
		return l, fmt.Errorf("%s: %w", l.file(fileLab), err)
	}
	return l, nil
}

// List the names of labs in root.
func List(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", fileLab))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	slices.Sort(names)
	return names, nil
}

// writeFile replaces a file of the lab whole or not at all.
func (l Lab) writeFile(name string, data []byte) error {
	file := l.file(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, data, 0o600)
}

// A process of the lab is known by its pid and by when it started (in clock ticks since boot,
// proc(5), stat field 22): a pid alone may belong to somebody else by now.
type pidFile struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

// procStat is what proc(5) says of a process.
type procStat struct {
	start string
	// ending: it was killed or ends, and is not gone yet. The first process of a PID namespace waits
	// for the end of all others first.
	ending bool
}

// exiting is PF_EXITING of the kernel's include/linux/sched.h, a bit of the field flags.
const exiting = 0x4

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(b), string(status))
}

// parseStat reads the files stat and status of a process.
func parseStat(stat, status string) (procStat, error) {
	// The second field, the name, may hold spaces: fields are counted from behind it.
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return procStat{}, fmt.Errorf("stat has %d fields behind the name, want at least 20", len(f))
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("stat, flags: %w", err)
	}
	return procStat{start: f[19], ending: f[0] == "Z" || f[0] == "X" || flags&exiting != 0 || killed(status)}, nil
}

// killed says that SIGKILL (9) is pending: it was sent, and the process has not run since.
func killed(status string) bool {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err == nil && set&(1<<(9-1)) != 0 {
			return true
		}
	}
	return false
}

func startTime(pid int) (string, error) {
	s, err := readStat(pid)
	if err == nil && s.ending {
		return "", fs.ErrNotExist
	}
	return s.start, err
}

// awaitEnd waits for the end of a process of the lab that was killed or ends. It returns at once if it runs, or is gone.
func (l Lab) awaitEnd(ctx context.Context, name string) error {
	p, err := l.readPID(name)
	if err != nil || p.PID == 0 {
		return err
	}
	// A descriptor of a process becomes readable when all its threads have ended, see pidfd_open(2).
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s (pid %d): %w", name, p.PID, err)
	}
	defer unix.Close(fd)
	if s, err := readStat(p.PID); err != nil || s.start != p.Start || !s.ending {
		return nil // gone, another one by now, or running
	}
	const look = 200 // milliseconds between looks at the context
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, look)
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for the end of %s (pid %d): %w", name, p.PID, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%s (pid %d) was killed and does not end: %w", name, p.PID, ctx.Err())
		}
	}
}

func (l Lab) recordProcess(name string, pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("%s ended at once, see %s", name, l.file(filepath.Join(dirLog, name+".log")))
	}
	b, err := json.Marshal(pidFile{PID: pid, Start: start})
	if err != nil {
		return err
	}
	return l.writeFile(name+".pid", b)
}

// readPID reads which process a name was given to last, the zero pidFile if to none.
func (l Lab) readPID(name string) (pidFile, error) {
	var p pidFile
	b, err := os.ReadFile(l.file(name + ".pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("%s: %w", l.file(name+".pid"), err)
	}
	return p, nil
}

// process returns the pid of one of the lab's own processes, 0 when it does not run, or ends.
func (l Lab) process(name string) (int, error) {
	p, err := l.readPID(name)
	if err != nil || p.PID == 0 {
		return 0, err
	}
	if start, err := startTime(p.PID); err != nil || start != p.Start {
		return 0, nil
	}
	return p.PID, nil
}

// namespaceArgs is the command line by which nsenter(1) enters the namespaces of one of the lab's processes.
func (l Lab) namespaceArgs(process string) ([]string, error) {
	pid, err := l.process(process)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("lab %s: %s does not run: `regiond lab up --lab %s` starts it again", l.Name, process, l.Name)
	}
	return []string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup"}, nil
}
