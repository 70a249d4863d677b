package preflight

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownNetwork puts the test into its own network namespace, with the addresses of a seed host.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("unshare: %v (this test needs root)", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer0"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr("10.20.0.2/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(veth, addr); err != nil {
		t.Fatal(err)
	}
}

// TestHelper is the process that binds ports; see hold.
func TestHelper(t *testing.T) {
	spec := os.Getenv("PREFLIGHT_HOLD")
	if spec == "" {
		return
	}
	kind, addr, _ := strings.Cut(spec, ",")
	at := netip.MustParseAddrPort(addr)
	typ := unix.SOCK_STREAM
	if kind == "udp" {
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(unix.AF_INET, typ, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Like dnsmasq and other servers, which must be detected nevertheless.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if device := os.Getenv("PREFLIGHT_DEVICE"); device != "" {
		if err := unix.BindToDevice(fd, device); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if kind == "tcp" {
		if err := unix.Listen(fd, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stdout.WriteString("holding\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
		t.Fatal("unexpected input")
	}
}

// hold starts a process that binds a port, with an argument, and returns its pid.
func hold(t *testing.T, spec, device, argument string) int {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestHelper$", "--", argument)
	c.Env = append(os.Environ(), "PREFLIGHT_HOLD="+spec, "PREFLIGHT_DEVICE="+device)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	b := make([]byte, 64)
	if n, err := out.Read(b); err != nil || !strings.HasPrefix(string(b[:n]), "holding") {
		t.Fatalf("helper: %q, %v", b[:n], err)
	}
	return c.Process.Pid
}

func collect(t *testing.T, w Requirements) Report {
	t.Helper()
	h, err := Collect(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Check(h, w)
}

func result(t *testing.T, r Report, check string) Result {
	t.Helper()
	for _, x := range r {
		if x.Check == check {
			return x
		}
	}
	t.Fatalf("no check %s", check)
	return Result{}
}

func seedRequirements(t *testing.T) Requirements {
	w := Requirements{DataDir: filepath.Join(t.TempDir(), "data"), Interface: "eth0",
		Management: netip.MustParseAddr("10.20.0.2"), Provisioning: netip.MustParseAddr("10.20.0.2")}
	w.Ports = ports(w)
	return w
}

func TestHolderOfAPortIsNamedWithItsPid(t *testing.T) {
	ownNetwork(t)
	w := seedRequirements(t)
	for _, x := range collect(t, w) {
		if strings.HasPrefix(x.Check, "port-") && x.Status != OK || strings.HasSuffix(x.Check, "address") && x.Status != OK {
			t.Fatalf("before anything listens: got %+v, want OK", x)
		}
	}
	for _, c := range []struct{ check, spec string }{
		{"port-67-udp", "udp,0.0.0.0:67"},
		{"port-69-udp", "udp,10.20.0.2:69"},
		{"port-80-tcp", "tcp,0.0.0.0:80"},
		{"port-6443-tcp", "tcp,10.20.0.2:6443"},
		{"port-7443-tcp", "tcp,10.20.0.2:7443"},
		{"port-2379-tcp", "tcp,127.0.0.1:2379"},
	} {
		pid := hold(t, c.spec, "", "")
		got := result(t, collect(t, w), c.check)
		if got.Status != Fail || !strings.Contains(got.Message, "preflight.test, pid "+strconv.Itoa(pid)) {
			t.Errorf("%s: got %+v, want the holder with its pid", c.spec, got)
		}
		if !strings.Contains(got.Fix, strconv.Itoa(pid)) && !strings.Contains(got.Fix, ".service") {
			t.Errorf("%s: got the fix %q, want one with the pid", c.spec, got.Fix)
		}
	}
}

func TestSocketOnAnotherInterfaceOrAddressIsNotAConflict(t *testing.T) {
	ownNetwork(t)
	hold(t, "udp,0.0.0.0:67", "lo", "") // like libvirt's dnsmasq on virbr0
	hold(t, "tcp,127.0.0.1:80", "", "")
	r := collect(t, seedRequirements(t))
	for _, check := range []string{"port-67-udp", "port-80-tcp"} {
		if got := result(t, r, check); got.Status != OK {
			t.Errorf("%+v", got)
		}
	}
}

func TestComponentLeftByAKilledRegiondIsOurs(t *testing.T) {
	ownNetwork(t)
	w := seedRequirements(t)
	hold(t, "tcp,127.0.0.1:2379", "", "--data-dir="+w.DataDir+"/etcd")
	if got := result(t, collect(t, w), "port-2379-tcp"); got.Status != OK || !strings.Contains(got.Message, "regiond's own") {
		t.Errorf("%+v", got)
	}
}

func TestFactsOfThisHost(t *testing.T) {
	h, err := Collect(t.Context(), Requirements{DataDir: "/nonexistent/regiond"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.MemoryTotal == 0 || h.Disk.Free == 0 || h.Disk.Path != "/" || h.Kernel == "" || h.Cgroups.Version == 0 || len(h.Interfaces) == 0 {
		t.Errorf("%+v", h)
	}
}

func TestSocketLine(t *testing.T) {
	const line = "   0: 0200140A:0045 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 0"
	local, state, inode, ok := socketLine(line)
	if !ok || local.String() != "10.20.0.2:69" || state != "07" || inode != "4711" {
		t.Errorf("%v %v %v %v", local, state, inode, ok)
	}
	for _, bad := range []string{"", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", "0: zz:00 0 0 0 0 0 0 0 0 0"} {
		if _, _, _, ok := socketLine(bad); ok {
			t.Errorf("%q was parsed, want it refused", bad)
		}
	}
}

func TestUnitOf(t *testing.T) {
	for cgroup, want := range map[string]string{
		"0::/system.slice/dnsmasq.service\n":                         "dnsmasq.service",
		"1:name=systemd:/system.slice/docker.service/x\n0::/\n":      "docker.service",
		"0::/user.slice/user-1000.slice/session-2.scope\n":           "",
		"0::/system.slice/regiond.service/kubepods/pod1/container\n": "regiond.service",
	} {
		if got := unitOf(cgroup); got != want {
			t.Errorf("%q: got %q", cgroup, got)
		}
	}
}
