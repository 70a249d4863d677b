package cluster

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"regiond.dev/regiond/bootstrap/kube/config"
)

// enterNetwork puts the test into its own network namespace.
func enterNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // a namespace belongs to the thread
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	own, err := netns.New()
	if err != nil {
		t.Fatalf("network namespace: %v (this test needs root)", err)
	}
	t.Cleanup(func() {
		if err := netns.Set(before); err != nil {
			t.Error(err) // the thread stays locked, and ends with its goroutine
			return
		}
		runtime.UnlockOSThread()
		_, _ = own.Close(), before.Close() // descriptors only
	})
}

// addBridge creates a bridge with the port of a pod.
func addBridge(t *testing.T, name, port string) {
	t.Helper()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(bridge); err != nil {
		t.Fatal(err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: bridge.Index}, PeerName: port + "p"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		t.Fatal(err)
	}
}

func addTables(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := nft("add table ip " + n); err != nil {
			t.Fatal(err)
		}
	}
}

func wantTables(t *testing.T, want ...string) {
	t.Helper()
	got, err := tableNames(false)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("tables are %q, want %q", got, want)
	}
}

func wantLink(t *testing.T, name string, want bool) {
	t.Helper()
	if link, err := findLink(name); err != nil || (link != nil) != want {
		t.Errorf("link %s exists: %t (%v), want %t", name, link != nil, err, want)
	}
}

// A region of an earlier version, with running pods, is started by this version.
func TestBridgeOfAnEarlierVersionIsAdoptedWithItsPods(t *testing.T) {
	enterNetwork(t)
	n := config.Node{ID: "0a1b2c3d", DataDir: t.TempDir()}
	addBridge(t, landedBridge, "pod1")
	addTables(t, landedTable, "kube-proxy")
	if err := adoptLandedNetwork(n); err != nil {
		t.Fatal(err)
	}
	wantLink(t, landedBridge, true) // without leases it has no pod of this region, so it belongs to another
	write(t, filepath.Join(n.DataDir, "cni", "ipam", config.Network, "10.42.0.2"), "id")
	for range 2 { // a start may be repeated
		if err := adoptLandedNetwork(n); err != nil {
			t.Fatal(err)
		}
	}
	wantLink(t, landedBridge, false)
	own, err := findLink(config.Bridge(n.ID))
	if err != nil || own == nil {
		t.Fatalf("%s: %v", config.Bridge(n.ID), err)
	}
	if pod, err := netlink.LinkByName("pod1"); err != nil || pod.Attrs().MasterIndex != own.Attrs().Index {
		t.Errorf("the pod is no longer connected to %s (%v)", config.Bridge(n.ID), err)
	}
	wantTables(t, "kube-proxy")
}

// The next start completes a start that was killed while it adopted a bridge.
func TestAdoptionOfABridgeIsCompleted(t *testing.T) {
	const id = "0a1b2c3d"
	own := config.Bridge(id)
	for name, c := range map[string]struct {
		bridges []string
		down    string
		leases  bool
		tables  []string
	}{
		"set down, not renamed (Linux before 6.2)": {[]string{landedBridge}, landedBridge, true, []string{"kube-proxy"}},
		"renamed, not set up":                      {[]string{own}, own, true, []string{"kube-proxy"}},
		"set up, the table not deleted":            {[]string{own}, "", true, []string{"kube-proxy"}},
		"renamed, and its pods have ended":         {[]string{own}, own, false, []string{"kube-proxy"}},
		"another region has the landed bridge":     {[]string{own, landedBridge}, own, true, []string{"kube-proxy", landedTable}},
	} {
		t.Run(name, func(t *testing.T) {
			enterNetwork(t)
			n := config.Node{ID: id, DataDir: t.TempDir()}
			if c.leases {
				write(t, filepath.Join(n.DataDir, "cni", "ipam", config.Network, "10.42.0.2"), "id")
			}
			for i, bridge := range c.bridges {
				addBridge(t, bridge, fmt.Sprintf("pod%d", i))
			}
			addTables(t, landedTable, "kube-proxy")
			if c.down != "" {
				if err := netlink.LinkSetDown(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: c.down}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := adoptLandedNetwork(n); err != nil {
				t.Fatal(err)
			}
			link, err := findLink(own)
			if err != nil || link == nil || link.Attrs().Flags&net.FlagUp == 0 {
				t.Errorf("%s is missing or down: %v (%v)", own, link, err)
			}
			wantLink(t, landedBridge, len(c.bridges) > 1)
			wantTables(t, c.tables...)
		})
	}
}

func TestTearDownLeavesOtherRegionsNetworksAlone(t *testing.T) {
	enterNetwork(t)
	const id, other = "0a1b2c3d", "99999999"
	addBridge(t, config.Bridge(id), "pod1")
	addBridge(t, config.Bridge(other), "pod2")
	addBridge(t, landedBridge, "pod3")
	addTables(t, config.MasqueradeTable(id), config.MasqueradeTable(other), landedTable, "kube-proxy", "filter")
	for _, landed := range []bool{false, true} {
		if err := removeNetwork(id, landed); err != nil {
			t.Fatal(err)
		}
		wantLink(t, config.Bridge(id), false)
		wantLink(t, config.Bridge(other), true)
		wantLink(t, landedBridge, true) // it has a port, for another region's pod
		wantTables(t, "filter", "kube-proxy", landedTable, config.MasqueradeTable(other))
	}
	if err := removeNetwork(other, false); err != nil {
		t.Fatal(err)
	}
	pod, err := netlink.LinkByName("pod3")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(pod); err != nil {
		t.Fatal(err)
	}
	// Leftovers, by an earlier version, of the region that was started last, whose pods have ended.
	if err := removeNetwork("", true); err != nil {
		t.Fatal(err)
	}
	wantLink(t, landedBridge, false)
	wantTables(t, "filter")
}
