package tunnel

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"regiond.dev/regiond/region"
)

// local is the address of the host's tunnels in these tests.
const local = "10.98.0.1"

// inHost enters a network namespace of a host, which ends with the test's thread.
func inHost(t *testing.T) netns.NsHandle {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with its namespace
	own, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	lo, err := netlink.LinkByName("lo")
	address, err2 := netlink.ParseAddr(local + "/32")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if err := netlink.AddrAdd(lo, address); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	return own
}

// other makes another host behind a link, whose two ends may take packets of different sizes: what
// is larger than the far one takes is lost there without a word, as in a switch.
func other(t *testing.T, own netns.NsHandle, name, address string, near, far int) {
	t.Helper()
	remote, err := netns.New() // and enters it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remote.Close() })
	if err := netns.Set(own); err != nil {
		t.Fatal(err)
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: near}, PeerName: "up", PeerNamespace: netlink.NsFd(remote)}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	up(t, name, near, "", address)
	if err := netns.Set(remote); err != nil {
		t.Fatal(err)
	}
	up(t, "up", far, address, local)
	if err := netns.Set(own); err != nil {
		t.Fatal(err)
	}
}

// up sets a link up, with an address of its own and a route to the one at its other end.
func up(t *testing.T, name string, mtu int, own, peer string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if own != "" {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: host(own)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: host(peer), Scope: netlink.SCOPE_LINK}); err != nil {
		t.Fatal(err)
	}
}

func host(address string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(address).To4(), Mask: net.CIDRMask(32, 32)}
}

// TestProbe sends real packets over links that take what tunnels need, and over links that don't.
func TestProbe(t *testing.T) {
	own := inHost(t)
	other(t, own, "good", "10.98.0.2", 1500, 1500)
	other(t, own, "hole", "10.98.0.3", 1500, 1400)
	other(t, own, "narrow", "10.98.0.4", 1400, 1400)
	want := map[netip.Addr]outcome{netip.MustParseAddr("10.98.0.2"): passes, netip.MustParseAddr("10.98.0.3"): stopped,
		netip.MustParseAddr("10.98.0.4"): stopped, netip.MustParseAddr("10.98.0.5"): silent}
	got, err := probe(t.Context(), netip.MustParseAddr(local), slices.Collect(maps.Keys(want)), 1500)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("1500 bytes: got %v, %v, want %v", got, err, want)
	}
	for _, a := range []string{"10.98.0.3", "10.98.0.4"} {
		want[netip.MustParseAddr(a)] = passes
	}
	delete(want, netip.MustParseAddr("10.98.0.5"))
	began := time.Now()
	got, err = probe(t.Context(), netip.MustParseAddr(local), slices.Collect(maps.Keys(want)), 1400)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("1400 bytes: got %v, %v, want %v", got, err, want)
	}
	if took := time.Since(began); took >= patience {
		t.Errorf("ways that are all right took %s, want no wait", took)
	}
}

// TestLook: what is lost is found by what the host has, the database of Open vSwitch and Neutron's
// file, and it is seen when it ends.
func TestLook(t *testing.T) {
	own := inHost(t)
	other(t, own, "good", "10.98.0.2", 9000, 9000)
	other(t, own, "hole", "10.98.0.3", 9000, 1500)
	root := t.TempDir()
	write(t, root, "[DEFAULT]\nglobal_physnet_mtu = 9000\n")
	p := Prober{Root: root, Now: func() time.Time { return time.Unix(0, 0) }, Database: serve(t, `{"error":null,"id":0,"result":[{"rows":[`+
		port(local, "10.98.0.2")+","+port(local, "10.98.0.3")+`]}]}`)}
	found, err := p.Look(t.Context(), nil)
	if err != nil || found == nil || found.MTU != 9000 || !slices.Equal(found.Blocked, []string{"10.98.0.3"}) {
		t.Fatalf("got %+v, %v, want that 9000 bytes do not get to 10.98.0.3", found, err)
	}
	link, err := netlink.LinkByName("hole")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetDown(link); err != nil {
		t.Fatal(err)
	}
	if silent, err := p.Look(t.Context(), found); err != nil || !slices.Equal(silent.Blocked, found.Blocked) {
		t.Errorf("while the host is away: got %+v, %v, want what was found before", silent, err)
	}
	write(t, root, "[DEFAULT]\nglobal_physnet_mtu = 1500\n")
	up(t, "hole", 9000, "", "10.98.0.3")
	if now, err := p.Look(t.Context(), found); err != nil || now.MTU != 1500 || len(now.Blocked) != 0 {
		t.Errorf("with a smaller MTU: got %+v, %v, want that all pass", now, err)
	}
	p.Database = serve(t, `{"error":null,"id":0,"result":[{"rows":[]}]}`)
	if none, err := p.Look(t.Context(), &region.HostTunnels{MTU: 1500}); none != nil || err != nil {
		t.Errorf("without tunnels: got %+v, %v, want nothing", none, err)
	}
}
