package link_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"regiond.dev/regiond/hardware/installer/link"
)

var log = slog.New(slog.DiscardHandler)

const mac = "02:00:00:77:00:01"

// namespace puts the test's thread into a network namespace with a cable: host0 is the installer's interface and
// switch0 the other end.
func namespace(t *testing.T) (host, other netlink.Link) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes a network namespace: run it as root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with its namespace
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	address, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "host0", HardwareAddr: address}, PeerName: "switch0"}); err != nil {
		t.Fatal(err)
	}
	return find(t, "host0"), find(t, "switch0")
}

func find(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serveDHCP runs busybox's server, which is nobody's relative of our client.
func serveDHCP(t *testing.T, other netlink.Link) {
	t.Helper()
	address, err := netlink.ParseAddr("10.99.78.1/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(other, address); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(other); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "udhcpd.conf")
	text := fmt.Sprintf("start 10.99.78.10\nend 10.99.78.10\ninterface switch0\nlease_file %[1]s/leases\npidfile %[1]s/pid\n"+
		"option subnet 255.255.255.0\noption router 10.99.78.1\noption lease 600\n", dir)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "leases"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("busybox", "udhcpd", "-f", config)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Process.Kill(); err != nil {
			t.Error(err)
		}
		// Killed, as it says.
		_ = server.Wait()
	})
}

func TestUpAndLease(t *testing.T) {
	host, other := namespace(t)
	serveDHCP(t, other)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	up, err := physical(ctx, t, host)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := link.Lease(ctx, up, log)
	if err != nil {
		t.Fatal(err)
	}
	if got := lease.ACK.YourIPAddr.String(); got != "10.99.78.10" {
		t.Errorf("leased %s", got)
	}
	addresses, err := netlink.AddrList(up, netlink.FAMILY_V4)
	if err != nil || len(addresses) != 1 || addresses[0].IPNet.String() != "10.99.78.10/24" {
		t.Errorf("addresses %v (%v)", addresses, err)
	}
	routes, err := netlink.RouteGet(net.ParseIP("192.0.2.1"))
	if err != nil || len(routes) != 1 || routes[0].Gw.String() != "10.99.78.1" {
		t.Errorf("route to elsewhere %v (%v)", routes, err)
	}
	// To renew is to do it again.
	if _, err := link.Lease(ctx, up, log); err != nil {
		t.Error(err)
	}
}

// physical sets veth ends up, which Up leaves alone because they are not of hardware, and calls it.
func physical(ctx context.Context, t *testing.T, host netlink.Link) (netlink.Link, error) {
	t.Helper()
	if err := netlink.LinkSetUp(host); err != nil {
		t.Fatal(err)
	}
	address, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	return link.Up(ctx, address, log)
}

func TestUpNamesWhatIsMissing(t *testing.T) {
	host, _ := namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	// The other end is down: no carrier.
	if _, err := physical(ctx, t, host); err == nil || !strings.Contains(err.Error(), "carrier on host0") {
		t.Errorf("no carrier: %v", err)
	}
	_, err := link.Up(ctx, net.HardwareAddr{2, 0, 0, 0, 0, 9}, log)
	if err == nil || !strings.Contains(err.Error(), "02:00:00:00:00:09") || !strings.Contains(err.Error(), "host0 "+mac) {
		t.Errorf("wrong MAC address: %v; want one that lists what there is", err)
	}
	if lo := find(t, "lo"); lo.Attrs().Flags&net.FlagUp == 0 {
		t.Error("loopback is down")
	}
}

// Nobody answers: the context ends it.
func TestLeaseStops(t *testing.T) {
	host, other := namespace(t)
	if err := netlink.LinkSetUp(other); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	up, err := physical(ctx, t, host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := link.Lease(ctx, up, log); err == nil {
		t.Error("a lease out of nowhere")
	}
}
