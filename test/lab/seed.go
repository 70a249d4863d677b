package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Where the seed host sees the lab's own files, and its data directory.
const (
	seedFiles = "/run/lab"
	SeedData  = "/var/lib/regiond"
	// seedBin holds the program under its name; seedPath is where commands are found.
	seedBin  = "/run/bin"
	seedPath = seedBin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// EnterSeed turns this process, the first of its PID and mount namespaces, into a seed host and
// then runs init in its place. What it mounts is seen by nobody else.
func (l Lab) EnterSeed(init []string) error {
	// Namespaces belong to threads: the one that makes them must be the one that calls exec.
	runtime.LockOSThread()
	cgroups, err := l.enterCgroups()
	if err != nil {
		return err
	}
	files, err := unix.Open(l.dir(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", l.dir(), err)
	}
	fd := fmt.Sprintf("/proc/self/fd/%d", files)
	// Private first, so that nothing reaches the machine; then a new peer group, since kubelet
	// wants its mounts to be seen by the containers that it starts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make / shared: %w", err)
	}
	steps := []mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""}, // shows the interfaces of this network namespace
	}
	steps = append(steps, cgroups...)
	steps = append(steps,
		mount{"tmpfs", "/run", "tmpfs", 0, "mode=755"},
		mount{"tmpfs", "/var/log", "tmpfs", 0, "mode=755"},
		mount{"tmpfs", "/var/lib", "tmpfs", 0, "mode=755"},
		mount{fd, seedFiles, "", unix.MS_BIND, ""},
		mount{fd + "/" + dirSeed, SeedData, "", unix.MS_BIND, ""},
	)
	for _, m := range steps {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := shadowSysctls(); err != nil {
		return err
	}
	// The seed host's first process is regiond, see RunInit.
	if err := errors.Join(os.Mkdir(seedBin, 0o755), os.Symlink("/proc/1/exe", filepath.Join(seedBin, "regiond"))); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("seed")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", init, os.Environ())
}

type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s %s on %s: %w", m.fstype, m.data, m.target, err)
	}
	return nil
}

// enterCgroups moves this process into the lab's cgroup of every hierarchy and makes that the
// root of a cgroup namespace, so that the kubelets of several labs do not meet. It returns the
// mounts that show this root: cgroup v1 hierarchies, or cgroup v2 on /sys/fs/cgroup.
func (l Lab) enterCgroups() ([]mount, error) {
	// Those of a seed host that was killed: in cgroup v2 they would keep this process out, see below.
	if err := l.removeCgroups(); err != nil {
		return nil, err
	}
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return nil, err
	}
	var mounts []mount
	if hierarchies[0].mountPoint != cgroupRoot {
		mounts = append(mounts, mount{"tmpfs", cgroupRoot, "tmpfs", 0, "mode=755"})
	}
	var unified []string
	for _, h := range hierarchies {
		dir := filepath.Join(h.mountPoint, l.cgroup())
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		if err := inheritCpuset(h.mountPoint, dir); err != nil {
			return nil, err
		}
		if h.v2 {
			if err := enableControllers(h.mountPoint); err != nil {
				return nil, err
			}
			unified = append(unified, dir)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return nil, fmt.Errorf("cgroup: enter %s: %w", dir, err)
		}
		mounts = append(mounts, mount{"cgroup", h.mountPoint, h.fstype(), 0, h.options})
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("cgroup namespace: %w", err)
	}
	// A cgroup v2 that has controllers for its children may not hold processes itself (Documentation/
	// admin-guide/cgroup-v2.rst, "No Internal Process Constraint"): the seed's processes go one down.
	for _, dir := range unified {
		leaf := filepath.Join(dir, "init")
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0); err != nil {
			return nil, fmt.Errorf("cgroup: enter %s: %w", leaf, err)
		}
		// As long as they are on here, systemd can't switch them off above.
		if err := enableControllers(dir); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// enableControllers gives the children of a cgroup v2 the controllers that the kubelet needs. systemd
// enables for the machine's only those that its units ask for: on a fresh Debian memory and pids.
func enableControllers(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	for c := range strings.FieldsSeq(string(b)) {
		if !slices.Contains([]string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}, c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("cgroup: enable controller %s in %s: %w", c, dir, err)
		}
	}
	return nil
}

// inheritCpuset fills a new cgroup v1 cpuset, which starts empty and takes no process before.
func inheritCpuset(parent, dir string) error {
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		b, err := os.ReadFile(filepath.Join(parent, f))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), b, 0); err != nil {
			return err
		}
	}
	return nil
}

// cgroupRoot is where cgroup v2 is mounted, or the folder of the cgroup v1 hierarchies.
const cgroupRoot = "/sys/fs/cgroup"

type hierarchy struct {
	mountPoint string
	v2         bool
	options    string // controllers, as mount options
}

func (h hierarchy) fstype() string {
	if h.v2 {
		return "cgroup2"
	}
	return "cgroup"
}

func cgroupHierarchies() ([]hierarchy, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	h := parseHierarchies(string(b))
	if len(h) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted on /sys/fs/cgroup: mount one (cgroup2, or cgroup v1 controllers)")
	}
	return h, nil
}

// parseHierarchies reads mountinfo (proc(5)). Only what is mounted for everybody counts.
func parseHierarchies(mountinfo string) []hierarchy {
	var hs []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 || !strings.HasPrefix(left[4], cgroupRoot) {
			continue
		}
		switch right[0] {
		case "cgroup2":
			hs = append(hs, hierarchy{mountPoint: left[4], v2: true})
		case "cgroup":
			var options []string
			for o := range strings.SplitSeq(right[2], ",") {
				switch {
				case o == "rw" || o == "ro" || strings.HasPrefix(o, "release_agent="):
				case strings.HasPrefix(o, "name="):
					options = append(options, "none", o) // a hierarchy without controllers
				default:
					options = append(options, o)
				}
			}
			hs = append(hs, hierarchy{mountPoint: left[4], options: strings.Join(options, ",")})
		}
	}
	return hs
}

// removeCgroups of the lab, deepest first.
func (l Lab) removeCgroups() error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(h.mountPoint, l.cgroup()), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := rmdirWhenFree(dirs[i]); err != nil {
				return fmt.Errorf("cgroup: %w", err)
			}
		}
	}
	return nil
}

// rmdirWhenFree waits for the kernel to let go of processes that have ended.
func rmdirWhenFree(dir string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shadowSysctls hides the settings that kubelet writes for the whole machine behind files.
func shadowSysctls() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	} {
		file := filepath.Join("/run", strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("shadow /proc/sys/%s: %w", name, err)
		}
	}
	return nil
}

// RunInit is the seed host's first process: it starts the command, starts it again when it ends
// (as systemd would), and reaps what is left behind by others, until ctx is done.
func RunInit(ctx context.Context, command []string) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for ctx.Err() == nil {
		c := exec.Command(command[0], command[1:]...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.Env = append(os.Environ(), "PATH="+seedPath)
		if err := c.Start(); err != nil {
			return err
		}
		status, ended := reap(ctx, c.Process.Pid, children)
		if !ended { // told to stop: the command is given time to stop its own children in order
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				return err
			}
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 60*time.Second)
			defer cancel()
			if _, ended = reap(stop, c.Process.Pid, children); !ended {
				return errors.New("regiond does not stop within 60 s")
			}
			return nil
		}
		fmt.Fprintf(os.Stderr, "regiond ended (%s), it is started again in 1 s\n", describe(status))
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// reap collects ended processes until pid is among them.
func reap(ctx context.Context, pid int, children <-chan os.Signal) (status syscall.WaitStatus, ended bool) {
	for {
		for {
			var s syscall.WaitStatus
			got, err := syscall.Wait4(-1, &s, syscall.WNOHANG, nil)
			if got <= 0 || err != nil {
				break
			}
			if got == pid {
				return s, true
			}
		}
		select {
		case <-children:
		case <-ctx.Done():
			return 0, false
		}
	}
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return s.Signal().String()
	}
	return "exit status " + strconv.Itoa(s.ExitStatus())
}
