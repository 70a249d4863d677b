// Package e2e brings a region up in the lab, the way `make lab` does, and breaks it on the way.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"regiond.dev/regiond/test/lab"
)

// Lab is a lab of the test's own, by the command line only: what a user has.
type Lab struct {
	*testing.T
	regiond string
	name    string
	seed    int // pid of the seed host's first process, once it is known
}

// NewLab names a lab after this process; it is removed with the test.
func NewLab(t *testing.T, regiond, suffix string) *Lab {
	l := &Lab{T: t, regiond: regiond, name: fmt.Sprintf("e2e-%d%s", os.Getpid(), suffix)}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(lab.DefaultRoot, l.name)); t.Failed() && err == nil {
			l.keepEvidence()
		}
		l.Down()
	})
	return l
}

// keepEvidence of a failed test in the test's log: what regiond says, and the ends of the logs.
func (l *Lab) keepEvidence() {
	out, err := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "kubectl", "get", "servers,hosts,openstackclusters", "-o", "yaml").CombinedOutput()
	l.Logf("servers, hosts and OpenStack (%v):\n%s", err, out)
	out, err = l.command("lab", "exec", "--lab", l.name, "--", "regiond", "kubectl", "get", "pods,jobs,events", "-A", "-o", "wide").CombinedOutput()
	l.Logf("pods (%v):\n%s", err, out)
	logs, err := filepath.Glob(filepath.Join(lab.DefaultRoot, l.name, "*", "*.log"))
	more, err2 := filepath.Glob(filepath.Join(lab.DefaultRoot, l.name, "*", "*", "*.log"))
	nodes, err3 := filepath.Glob(filepath.Join(lab.DefaultRoot, l.name, "machines", "*", "upper", "var", "log", "*.log"))
	if err := errors.Join(err, err2, err3); err != nil {
		l.Log(err)
	}
	for _, f := range slices.Concat(logs, more, nodes) {
		b, err := os.ReadFile(f)
		if n := len(b); n > 6000 {
			b = b[n-6000:]
		}
		l.Logf("=== end of %s (%v)\n%s", f, err, b)
	}
}

func (l *Lab) command(args ...string) *exec.Cmd { return exec.Command(l.regiond, args...) }

// Run regiond and return its standard output.
func (l *Lab) Run(args ...string) string {
	l.Helper()
	var stderr bytes.Buffer
	c := l.command(args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		l.Fatalf("regiond %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// Seed runs a command on the seed host.
func (l *Lab) Seed(args ...string) string {
	l.Helper()
	return l.Run(append([]string{"lab", "exec", "--lab", l.name, "--"}, args...)...)
}

// Status of the lab.
func (l *Lab) Status() lab.Status {
	l.Helper()
	var s lab.Status
	if err := json.Unmarshal([]byte(l.Run("lab", "status", "--lab", l.name, "-o", "json")), &s); err != nil {
		l.Fatal(err)
	}
	return s
}

// Up is `lab up` running in the background.
type Up struct {
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	ended chan struct{} // closed when it has ended, with err
	err   error
}

// Up starts `lab up`; its lines go to the test's log.
func (l *Lab) Up(args ...string) *Up {
	l.Helper()
	u := &Up{cmd: l.command(append([]string{"lab", "up", "--lab", l.name}, args...)...), ended: make(chan struct{})}
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	u.cmd.Stderr = u.cmd.Stdout
	if err := u.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			u.mu.Lock()
			u.lines = append(u.lines, s.Text())
			u.mu.Unlock()
			fmt.Println(s.Text())
		}
		u.err = u.cmd.Wait()
		close(u.ended)
	}()
	return u
}

// Lines printed so far.
func (u *Up) Lines() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.lines...)
}

// oneServer is the least that a region can be installed on.
const oneServer = "spec: {machines: [{name: node1}]}"

// Write lab.yaml with the given spec and return its path.
func (l *Lab) Write(spec string) string {
	l.Helper()
	file := filepath.Join(l.TempDir(), "lab.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: regiond.dev/v1alpha1\nkind: Lab\n"+spec+"\n"), 0o600); err != nil {
		l.Fatal(err)
	}
	return file
}

// Wait for `lab up` to end well.
func (l *Lab) Wait(u *Up) {
	l.Helper()
	<-u.ended
	if u.err != nil {
		l.Fatalf("lab up: %v\n%s", u.err, strings.Join(u.Lines(), "\n"))
	}
	for _, line := range u.Lines() {
		if strings.Contains(line, lab.KernelPanicked) {
			l.Errorf("got %q, want that no host starts again by itself", line)
		}
	}
}

// AwaitLine waits until `lab up` has printed a line with a text. It fails at once if `lab up` ends without.
func (l *Lab) AwaitLine(u *Up, text string, timeout time.Duration) {
	l.Helper()
	l.Eventually(text, timeout, func() (bool, string) {
		ended := false
		select {
		case <-u.ended:
			ended = true
		default:
		}
		lines := strings.Join(u.Lines(), "\n")
		found := strings.Contains(lines, text)
		if ended && !found {
			l.Fatalf("lab up ended without %q: %v\n%s", text, u.err, lines)
		}
		return found, lines
	})
}

// Down removes the lab.
func (l *Lab) Down() { l.Run("lab", "down", "--lab", l.name) }

// Eventually waits for a condition, which says what it found.
func (l *Lab) Eventually(what string, timeout time.Duration, condition func() (ok bool, found string)) {
	l.Helper()
	deadline := time.Now().Add(timeout)
	for {
		ok, found := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: not within %s; found: %s", what, timeout, found)
		}
		<-time.After(500 * time.Millisecond)
	}
}

// Kill a process on the seed host with SIGKILL, found by the name it was started under.
func (l *Lab) Kill(name string) {
	l.Helper()
	pid := l.PID(name)
	if pid == 0 {
		l.Fatalf("no process %q on the seed host", name)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		l.Fatalf("kill %s: %v", name, err)
	}
}

// PID of a process of the lab as this machine counts, 0 if there is none. The name is argv[0], or
// "regiond run" for the daemon itself.
func (l *Lab) PID(name string) int {
	l.Helper()
	if l.seed == 0 {
		if l.seed = l.Status().Seed; l.seed == 0 {
			return 0
		}
	}
	seed, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", l.seed))
	if err != nil {
		l.Fatal(err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		l.Fatal(err)
	}
	for _, p := range procs {
		ns, err := os.Readlink(p + "/ns/mnt")
		if err != nil || ns != seed {
			continue
		}
		b, err := os.ReadFile(p + "/cmdline")
		if err != nil {
			continue
		}
		argv := strings.Split(string(b), "\x00")
		if argv[0] == name || name == "regiond run" && len(argv) > 1 && argv[1] == "run" {
			pid, err := strconv.Atoi(filepath.Base(p))
			if err != nil {
				l.Fatal(err)
			}
			return pid
		}
	}
	return 0
}
