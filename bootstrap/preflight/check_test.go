package preflight

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/region"
)

func goodHost() Host {
	return Host{
		Kernel: "6.12.48+deb13-amd64", Hostname: "seed",
		Cgroups: Cgroups{Version: 2, Controllers: []string{"cpuset", "cpu", "io", "memory", "pids"}},
		Overlay: true, BridgeNetfilter: true, NFT: "1.1.3",
		Disk: Disk{Path: "/var/lib", Free: 50 << 30}, MemoryTotal: 4 << 30,
		Interfaces: []Interface{
			{Name: "lo", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
			{Name: "eth0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.20.0.2/24")}},
			{Name: "eth1", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.0.2/24")}},
		},
		ForwardingWritable: true, NodeImage: true,
		Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
	}
}

func required(t *testing.T) Requirements {
	t.Helper()
	r := &region.Region{}
	r.Spec.Networks.Provisioning.Address = "10.20.0.2"
	r.Spec.Networks.Provisioning.Interface = "eth0"
	r.Spec.Networks.Management = &region.Network{Address: "10.10.0.2"}
	r.Spec.ControlPlane.DataDir = "/var/lib/regiond"
	w, err := RequirementsOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestGoodHostPassesEveryCheck(t *testing.T) {
	r := Check(goodHost(), required(t))
	for _, x := range r {
		if x.Status != OK || x.Fix != "" {
			t.Errorf("%+v", x)
		}
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

func TestEachFaultIsNamedWithItsFix(t *testing.T) {
	tftp := func(u PortUse) func(*Host) {
		return func(h *Host) {
			u.Port = Port{Network: "udp4", Address: netip.MustParseAddr("10.20.0.2"), Number: 69}
			h.Ports = []PortUse{u}
		}
	}
	for _, c := range []struct {
		name         string
		change       func(*Host)
		check        string
		status       Status
		message, fix string
	}{
		{"not root", func(h *Host) { h.UID = 1000 }, "root", Fail, "uid 1000", "sudo"},
		{"old kernel", func(h *Host) { h.Kernel = "5.10.0-33-amd64" }, "kernel", Fail, "5.10.0-33-amd64 is older than 5.13", "newer kernel"},
		{"kernel without numbers", func(h *Host) { h.Kernel = "unknown" }, "kernel", Fail, "unknown", "newer kernel"},
		{"running", func(h *Host) { h.Running = &Process{PID: 7} }, "instance", Warn, "pid 7", "kill 7"},
		{"running as a service", func(h *Host) { h.Running = &Process{PID: 7, Unit: "regiond.service"} }, "instance", Warn, "pid 7", "systemctl restart regiond.service"},
		{"no cgroups", func(h *Host) { h.Cgroups = Cgroups{} }, "cgroups", Fail, "no control groups", "mount"},
		{"no memory controller", func(h *Host) { h.Cgroups.Controllers = []string{"cpu", "cpuset", "pids"} }, "cgroups", Fail, "lacks the controllers memory", "cgroup_enable=memory"},
		{"cgroup v1", func(h *Host) {
			h.Cgroups = Cgroups{Version: 1, Controllers: []string{"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}}
		}, "cgroups", Warn, "cgroup v1", "unified"},
		{"no overlayfs", func(h *Host) { h.Overlay = false }, "overlayfs", Fail, "no overlayfs", "modprobe overlay"},
		{"no nft", func(h *Host) { h.NFT = "" }, "nftables", Fail, "not found on PATH", "apt-get install nftables"},
		{"old nft", func(h *Host) { h.NFT = "0.9.8" }, "nftables", Fail, "0.9.8", "apt-get install"},
		{"no br_netfilter", func(h *Host) { h.BridgeNetfilter = false }, "br_netfilter", Fail, "no br_netfilter", "modprobe"},
		{"data of something else", func(h *Host) { h.Foreign = []string{"bin", "etcd"} }, "data-directory", Fail, "/var/lib/regiond has bin, etcd, but no regiond was started there", "controlPlane.dataDir"},
		{"small disk", func(h *Host) { h.Disk.Free = 3 << 30 }, "disk", Fail, "3.0 GiB free for /var/lib/regiond, 10.0 GiB required", "controlPlane.dataDir"},
		{"small disk on a second start", func(h *Host) { h.Disk.Free, h.Disk.HasData = 3<<30, true }, "disk", Warn, "3.0 GiB", "free at least"},
		{"full disk on a second start", func(h *Host) { h.Disk.Free, h.Disk.HasData = 1<<28, true }, "disk", Fail, "etcd needs space", "free some"},
		{"data on overlayfs", func(h *Host) { h.Disk.Filesystem = "overlayfs" }, "disk", Fail, "on overlayfs", "ext4"},
		{"little memory", func(h *Host) { h.MemoryTotal = 1 << 30 }, "memory", Fail, "1.0 GiB of memory", "more memory"},
		{"swap", func(h *Host) { h.SwapTotal = 1 << 30 }, "swap", Warn, "1.0 GiB of swap", "swapoff"},
		{"nameless", func(h *Host) { h.Hostname = "localhost" }, "hostname", Fail, "no name of its own", "hostnamectl"},
		{"bad name", func(h *Host) { h.Hostname = "seed_1" }, "hostname", Fail, `"seed_1"`, "RFC 1123"},
		{"dead battery", func(h *Host) { h.Now = time.Unix(0, 0) }, "clock", Fail, "1970-01-01", "set the clock"},
		{"clock went back", func(h *Host) { h.LastUse = h.Now.Add(48 * time.Hour) }, "clock", Fail, "2026-12-03", "set the clock"},
		{"forwarding locked", func(h *Host) { h.ForwardingWritable = false }, "ip-forward", Fail, "read-only", "sysctl -w"},
		{"no management address", func(h *Host) { h.Interfaces = h.Interfaces[:2] }, "management-address", Fail,
			"10.10.0.2 is not an address of this host, which has 10.20.0.2/24 (eth0)", "ip address add 10.10.0.2/24"},
		{"no address at all", func(h *Host) { h.Interfaces = h.Interfaces[:1] }, "provisioning-address", Fail, "no IPv4 address", "dev eth0"},
		{"address elsewhere", func(h *Host) { h.Interfaces[1].Name, h.Interfaces[2].Name = "eth1", "eth0" }, "provisioning-address", Fail,
			"10.20.0.2 is on interface eth1, not on eth0", "interface to eth1"},
		{"interface down", func(h *Host) { h.Interfaces[1].Up = false }, "provisioning-address", Fail, "which is down", "ip link set eth0 up"},
		{"interface missing", func(h *Host) { h.Interfaces[1].Name = "ens3" }, "provisioning-interface", Fail, `"eth0" does not exist; this host has lo, ens3, eth1`, "leave it out"},
		{"credentials at the first start", func(h *Host) { h.Credentials = []CredentialFault{{"rack1", "/etc/bmc.yaml is missing"}} }, "credentials", Fail, "rack1: /etc/bmc.yaml is missing", "repair"},
		{"credentials later", func(h *Host) { h.Credentials, h.Disk.HasData = []CredentialFault{{"rack1", "gone"}}, true }, "credentials", Warn, "rack1: gone", "repair"},
		{"no image", func(h *Host) { h.NodeImage = false }, "node-image", Warn, "not installed", "regiond image build"},
		{"port held", tftp(PortUse{InUse: true, Holder: &Process{PID: 812, Name: "in.tftpd"}}), "port-69-udp", Fail,
			"port 69/udp for TFTP is in use by in.tftpd, pid 812", "kill 812"},
		{"port held by a service", tftp(PortUse{InUse: true, Holder: &Process{PID: 812, Name: "in.tftpd", Unit: "tftpd-hpa.service"}}), "port-69-udp", Fail,
			"in.tftpd, pid 812 (tftpd-hpa.service)", "systemctl disable --now tftpd-hpa.service"},
		{"port held by an earlier regiond", tftp(PortUse{InUse: true, Holder: &Process{PID: 812, Name: "regiond", Own: true}}), "port-69-udp", OK, "regiond's own", ""},
		{"port held unseen", tftp(PortUse{InUse: true}), "port-69-udp", Fail, "not visible from here", "ss -lnp 'sport = :69'"},
		{"port not tested", tftp(PortUse{Err: "cannot assign requested address"}), "port-69-udp", Warn, "cannot assign", "checks above"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := goodHost()
			c.change(&h)
			var got *Result
			for _, x := range Check(h, required(t)) {
				if x.Check == c.check {
					got = &x
				}
			}
			if got == nil {
				t.Fatalf("no check %s", c.check)
			}
			if got.Status != c.status || !strings.Contains(got.Message, c.message) || !strings.Contains(got.Fix, c.fix) {
				t.Errorf("%+v", *got)
			}
		})
	}
}

func TestAllFailuresAreReportedAtOnce(t *testing.T) {
	h := goodHost()
	h.NFT, h.Overlay, h.SwapTotal = "", false, 1<<30
	err := Check(h, required(t)).Err()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"2 of ", "overlayfs:", "nftables:", "fix: apt-get install nftables"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "swap") {
		t.Errorf("got a warning in the error: %v", err)
	}
}

func TestVersionsCompareByNumber(t *testing.T) {
	for _, c := range []struct {
		have, want string
		ok         bool
	}{
		{"5.13", "5.13", true}, {"5.9.1", "5.13", false}, {"6", "5.13", true}, {"5", "5.13", false},
		{"6.12.48+deb13-amd64", "6.12.48", true}, {"", "1", false}, {"1.0.1", "1.0.1", true}, {"1.0.0", "1.0.1", false},
	} {
		if got := versionAtLeast(c.have, c.want); got != c.ok {
			t.Errorf("%q at least %q: %v", c.have, c.want, got)
		}
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	r := Report{ok("root", "running as root"), fail("nftables", "apt-get install nftables", "nft was not found")}
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	const want = "CHECK     STATUS  FOUND\n" +
		"root      ok      running as root\n" +
		"nftables  fail    nft was not found\n" +
		"                  fix: apt-get install nftables\n"
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
