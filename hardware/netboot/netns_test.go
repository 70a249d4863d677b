package netboot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"

	"regiond.dev/regiond/machine/enroll"
)

// The tests of this package run in a network namespace of their own: the test binary starts
// itself again in one. It ends with the process, and nothing in it can reach the host's networks.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		os.Exit(m.Run())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		os.Exit(1)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need root, for a network namespace:", err)
		os.Exit(1)
	}
}

// prepare does what needs the host's network.
var prepare = func() error { return nil }

const inNamespace = "REGIOND_TEST_NETBOOT_NAMESPACE"

// The lab's provisioning network.
var (
	seed    = netip.MustParseAddr("10.99.0.1")
	network = netip.MustParsePrefix("10.99.0.0/24")
)

const bridge = "rnb0"

// run a command, which must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// provisioning makes the bridge with the seed's address.
func provisioning(t *testing.T) {
	t.Helper()
	run(t, "ip", "link", "set", "lo", "up")
	run(t, "ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0")
	t.Cleanup(func() { run(t, "ip", "link", "del", bridge) })
	// Without a carrier a bridge does not send: this port is always up.
	run(t, "ip", "link", "add", "rnbup", "type", "veth", "peer", "name", "rnbend")
	t.Cleanup(func() { run(t, "ip", "link", "del", "rnbup") })
	run(t, "ip", "link", "set", "rnbup", "master", bridge, "up")
	run(t, "ip", "link", "set", "rnbend", "up")
	// The seed's address is not the first one, which the kernel would send from.
	run(t, "ip", "addr", "add", "10.99.0.9/24", "dev", bridge)
	run(t, "ip", "addr", "add", seed.String()+"/24", "dev", bridge)
	run(t, "ip", "link", "set", bridge, "up")
}

// station is another host on the provisioning network: a network namespace that a sleeping
// process holds, with the interface eth0.
type station struct {
	t   *testing.T
	pid int
	mac string
}

var stations int

func newStation(t *testing.T) *station {
	t.Helper()
	stations++
	hold := exec.Command("sleep", "infinity")
	hold.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hold.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = hold.Wait() // killed
	})
	s := &station{t: t, pid: hold.Process.Pid, mac: fmt.Sprintf("52:54:00:99:00:%02x", stations)}
	port := "rnbp" + strconv.Itoa(stations)
	run(t, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", s.mac, "netns", strconv.Itoa(s.pid))
	run(t, "ip", "link", "set", port, "master", bridge, "up")
	s.run("ip", "link", "set", "lo", "up")
	s.run("ip", "link", "set", "eth0", "up")
	return s
}

func (s *station) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/proc/" + strconv.Itoa(s.pid) + "/ns/net"}, args...)...)
}

func (s *station) run(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// decider answers with a job, or with none.
type decider struct {
	mu    sync.Mutex
	job   *Job
	err   error
	asked []Client
}

func (d *decider) Netboot(_ context.Context, c Client) (*Job, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, c)
	return d.job, d.err
}

func (d *decider) questions() []Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Client(nil), d.asked...)
}

func testJob() *Job {
	return &Job{
		Ticket:          enroll.Ticket{URL: "https://10.99.0.1:7443", Token: "secret", MACAddress: "52:54:00:99:00:01"},
		KernelArguments: []string{"console=ttyS0,115200", "panic=-1"},
	}
}

// fixture is a running netboot service.
type fixture struct {
	config  Config
	decider *decider
	log     *lines
	metrics *prometheus.Registry
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newFixture prepares a configuration with small files in place of the real ones.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, "journal.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	write := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i * 7 >> 3)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kernel, initramfs := write("vmlinuz", 300_000), write("initramfs", 200_000)
	write("ipxe/snponly.efi", 285_000)
	write("ipxe/undionly.kpxe", 70_000)
	f := &fixture{decider: new(decider), log: new(lines), metrics: prometheus.NewRegistry()}
	f.config = Config{
		Interface: bridge, Address: seed, Network: network,
		DNS:        []netip.Addr{seed},
		RangeFirst: netip.MustParseAddr("10.99.0.100"), RangeLast: netip.MustParseAddr("10.99.0.120"),
		LeaseTime: time.Hour, DB: db, Decider: f.decider,
		Kernel:    func() (string, error) { return kernel, nil },
		Initramfs: func() (string, error) { return initramfs, nil },
		ImageDir:  filepath.Join(dir, "images"), LoaderDir: filepath.Join(dir, "ipxe"),
		Metrics: f.metrics,
		Log:     slog.New(slog.NewTextHandler(io.MultiWriter(f.log, t.Output()), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	return f
}

// start runs the services until the test ends.
func (f *fixture) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, f.config) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Run:", err)
		}
	})
	waitFor(t, time.Minute, "services to be up", func() bool {
		return strings.Contains(f.log.String(), "netboot services are up")
	})
}

// counter reads a metric; labels are name=value.
func (f *fixture) counter(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	metric:
		for _, m := range family.GetMetric() {
			for _, want := range labels {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetName()+"="+l.GetValue() == want
				}
				if !found {
					continue metric
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// waitFor polls a condition until a deadline.
func waitFor(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s for %s", limit, what)
		}
	}
}
