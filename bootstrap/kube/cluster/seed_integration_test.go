//go:build integration

package cluster_test

import (
	"bufio"
	"encoding/json"
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

	"regiond.dev/regiond/bootstrap/supervisor"
)

// seed is a seed host in its own namespaces, and the regiond that runs there.
type seed struct {
	dir, data string
	keeper    *exec.Cmd // keeps the namespaces
	namespace string    // of mounts, to recognize processes by
	had       map[string]bool

	regiond *exec.Cmd
	began   time.Time
	ended   chan struct{}

	mu    sync.Mutex
	state []supervisor.Component
	ready time.Time
}

func newSeed(t *testing.T) *seed {
	t.Helper()
	// Not below /tmp, which may be a small tmpfs: containerd's overlays need a disk.
	dir, err := os.MkdirTemp("/var/tmp", "regiond-it-")
	if err != nil {
		t.Fatal(err)
	}
	s := &seed{dir: dir, data: filepath.Join(dir, "data"), had: map[string]bool{}}
	for _, d := range []string{"/var/lib/kubelet", "/var/log/containers"} {
		_, err := os.Stat(d)
		s.had[d] = err == nil
	}
	// regiond has its own kubectl command; the applet is chosen by name.
	if err := os.Symlink(*regiond, s.kubectlPath()); err != nil {
		t.Fatal(err)
	}
	s.keeper = exec.Command("unshare", "--mount", "--net", "--propagation", "private", "/proc/self/exe", "part", "host", dir)
	s.keeper.Args[5] = executable(t)
	s.keeper.Stderr = os.Stderr
	in, err := s.keeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("setting up a host: %q %v", line, err)
	}
	if s.namespace, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", s.keeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.showLogs(t)
		}
		if s.regiond != nil {
			s.kill(t)
		}
		if out, err := s.tryPart("teardown", s.data); err != nil {
			t.Errorf("teardown: %v %s", err, out)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := s.keeper.Wait(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// showLogs prints the end of each component's log.
func (s *seed) showLogs(t *testing.T) {
	logs, _ := filepath.Glob(filepath.Join(s.data, "log", "*.log"))
	for _, l := range append(logs, filepath.Join(s.dir, "regiond.log")) {
		b, _ := os.ReadFile(l) // best effort: the test has already failed
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		t.Logf("%s:\n%s", filepath.Base(l), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}

func (s *seed) namespaceArgs(args []string) []string {
	return append([]string{"-t", strconv.Itoa(s.keeper.Process.Pid), "-m", "-n"}, args...)
}

// start starts a regiond and follows what it prints.
func (s *seed) start(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(s.data, 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "regiond.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	// nsenter execs, so the process is regiond itself.
	s.regiond = exec.Command("nsenter", s.namespaceArgs([]string{executable(t), "part", "run", s.data, *regiond})...)
	s.regiond.Stderr = log
	// Hosts in companies have a proxy in their environment. This one does not respond.
	s.regiond.Env = append(os.Environ(), "HTTPS_PROXY=http://10.255.0.250:3128", "http_proxy=http://10.255.0.250:3128")
	out, err := s.regiond.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.state, s.ready, s.began = nil, time.Time{}, time.Now()
	s.mu.Unlock()
	if err := s.regiond.Start(); err != nil {
		t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			s.mu.Lock()
			if lines.Text() == `"ready"` {
				s.ready = time.Now()
			} else if err := json.Unmarshal(lines.Bytes(), &s.state); err != nil {
				t.Errorf("regiond printed %q: %v", lines.Text(), err)
			}
			s.mu.Unlock()
		}
	}()
}

// kill kills regiond, as a crash would.
func (s *seed) kill(t *testing.T) {
	t.Helper()
	if err := s.regiond.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-s.ended
	_ = s.regiond.Wait() // "signal: killed"
	s.regiond = nil
}

func (s *seed) stop(t *testing.T) {
	t.Helper()
	if err := s.regiond.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if err := s.regiond.Wait(); err != nil {
		t.Errorf("regiond: %v", err)
	}
	s.regiond = nil
}

func (s *seed) components() []supervisor.Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.state)
}

func (s *seed) waitReady(t *testing.T, timeout time.Duration) time.Duration {
	t.Helper()
	s.eventually(t, timeout, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ready.IsZero() {
			return fmt.Errorf("not ready: %+v", s.state)
		}
		return nil
	})
	return s.ready.Sub(s.began)
}

// eventually calls f until it succeeds.
func (s *seed) eventually(t *testing.T, timeout time.Duration, f func() error) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(timeout)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", timeout, err)
		}
		<-ticker.C
	}
}

// enter runs a program on the seed host and returns its output.
func (s *seed) enter(args ...string) (string, error) {
	out, err := exec.Command("nsenter", s.namespaceArgs(args)...).CombinedOutput()
	return string(out), err
}

func (s *seed) tryPart(args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return s.enter(append([]string{self, "part"}, args...)...)
}

func (s *seed) part(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.tryPart(args...)
	if err != nil {
		t.Errorf("%v: %v: %s", args, err, out)
	}
	return out
}

func (s *seed) kubectlPath() string { return filepath.Join(s.dir, "kubectl") }

func (s *seed) tryKubectl(args ...string) (string, error) {
	out, err := s.enter(append([]string{s.kubectlPath(), "--kubeconfig", filepath.Join(s.data, "admin.kubeconfig")}, args...)...)
	if err != nil {
		err = fmt.Errorf("kubectl %v: %w: %s", args, err, out)
	}
	return out, err
}

func (s *seed) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.tryKubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// containers lists the IDs of all pods' containers.
func (s *seed) containers(t *testing.T) []string {
	t.Helper()
	out := s.kubectl(t, "get", "pods", "-A", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].containerID}{\"\\n\"}{end}")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	return lines
}

// cgroupRoot returns the cgroup of this cluster's pods.
func (s *seed) cgroupRoot(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "config", "kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if root, ok := strings.CutPrefix(strings.TrimSpace(line), "cgroupRoot: "); ok && root != "/" {
			return root
		}
	}
	t.Fatal("the kubelet has no cgroup of its own; this test is for hosts without systemd")
	return ""
}

func (s *seed) pid(t *testing.T, component string) int {
	t.Helper()
	for _, c := range s.components() {
		if c.Name == component && c.PID != 0 {
			return c.PID
		}
	}
	t.Fatalf("%s is not running", component)
	return 0
}

// processes lists the processes on the seed host whose command line starts with a text, or contains
// it after a slash. Pods have their own mount namespaces and are found through their shims.
func (s *seed) processes(t *testing.T, text string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	ours := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // exited
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if fields[0] == "Z" {
			continue
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			t.Fatal(err)
		}
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err == nil && ns == s.namespace {
			ours[pid] = true
		}
	}
	var out []int
	for pid := range parents {
		ancestor := pid
		for ancestor > 1 && !ours[ancestor] {
			ancestor = parents[ancestor]
		}
		if line := commandLine(pid); ours[ancestor] && line != "" && (strings.HasPrefix(line, text) || strings.Contains(line, "/"+text)) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(b), "\x00", " ")
}
