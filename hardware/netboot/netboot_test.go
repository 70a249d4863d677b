package netboot

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/hardware/netboot/dhcp"
	"regiond.dev/regiond/hardware/sightings"
	"regiond.dev/regiond/machine/inventory"
)

// udhcpcScript is what busybox's DHCP client runs.
func (s *station) udhcpcScript() string {
	s.t.Helper()
	script := filepath.Join(s.t.TempDir(), "script")
	const text = "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\nset\nip addr flush dev $interface\nip addr add $ip/$mask dev $interface\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
	return script
}

// udhcpc runs busybox's DHCP client once. Its script prints what it was given and configures
// the address.
func (s *station) udhcpc(args ...string) map[string]string {
	s.t.Helper()
	out := s.run(append([]string{"busybox", "udhcpc", "-f", "-n", "-q", "-t", "5", "-T", "2", "-i", "eth0", "-s", s.udhcpcScript()}, args...)...)
	given := make(map[string]string)
	for line := range strings.Lines(out) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			given[k] = strings.Trim(v, "'")
		}
	}
	return given
}

func TestUdhcpc(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.config.Gateway = netip.MustParseAddr("10.99.0.254")
	f.start(t)
	s := newStation(t)
	given := s.udhcpc()
	for k, want := range map[string]string{
		"subnet": "255.255.255.0", "router": "10.99.0.254", "dns": "10.99.0.1", "lease": "3600", "serverid": "10.99.0.1", "broadcast": "10.99.0.255", "boot_file": "",
	} {
		if given[k] != want {
			t.Errorf("%s is %q, want %q", k, given[k], want)
		}
	}
	if n := f.counter(t, "regiond_dhcp_leases"); n != 1 {
		t.Errorf("%v leases", n)
	}
	// The same address as PXE firmware, as iPXE, and as an operating system with a DUID.
	for _, c := range []struct {
		args []string
		file string
	}{
		{[]string{"-V", "PXEClient:Arch:00000:UNDI:002001", "-x", "0x5d:0000"}, "undionly.kpxe"},
		{[]string{"-V", "PXEClient:Arch:00007:UNDI:003016", "-x", "0x5d:0007", "-B"}, "snponly.efi"},
		{[]string{"-V", "HTTPClient:Arch:00016:UNDI:003001", "-x", "0x5d:0010"}, "http://10.99.0.1/netboot/snponly.efi"},
		{[]string{"-V", "PXEClient:Arch:00007:UNDI:003010", "-x", "0x5d:0007", "-x", "0x4d:" + fmt.Sprintf("%x", "iPXE")}, "http://10.99.0.1/boot.ipxe"},
		{[]string{"-V", "PXEClient:Arch:00011:UNDI:003000", "-x", "0x5d:000b"}, ""},
		{[]string{"-x", "0x3d:ff0102030405"}, ""},
	} {
		got := s.udhcpc(append(c.args, "-O", "bootfile", "-O", "tftp")...)
		if got["ip"] != given["ip"] || got["boot_file"] != c.file {
			t.Errorf("%v: %s %q, want %s %q", c.args, got["ip"], got["boot_file"], given["ip"], c.file)
		}
	}
	if n := f.counter(t, "regiond_dhcp_unsupported_architecture_total", "architecture=EFI ARM64"); n != 2 {
		t.Errorf("%v packets of unsupported firmware counted, want DISCOVER and REQUEST", n)
	}
	// Given back on exit, and then leased again.
	daemon := s.command("busybox", "udhcpc", "-f", "-R", "-i", "eth0", "-s", s.udhcpcScript())
	acks := f.counter(t, "regiond_dhcp_replies_total", "type=ACK")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, time.Minute, "a lease", func() bool { return f.counter(t, "regiond_dhcp_replies_total", "type=ACK") > acks })
	// A signal renews by unicast to the server, but is ignored by a client that has not yet read its ACK:
	// it is repeated until it is followed.
	var signalled time.Time
	waitFor(t, time.Minute, "the renewal", func() bool {
		if time.Since(signalled) > time.Second {
			signalled = time.Now()
			if err := daemon.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
		}
		return f.counter(t, "regiond_dhcp_replies_total", "type=ACK") > acks+1
	})
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // ends by the signal
	waitFor(t, time.Minute, "the release", func() bool { return f.counter(t, "regiond_dhcp_leases") == 0 })
	if again := s.udhcpc(); again["ip"] != given["ip"] {
		t.Errorf("%s after release, %s before", again["ip"], given["ip"])
	}
	other := newStation(t)
	if a := other.udhcpc("-r", given["ip"]); a["ip"] == given["ip"] {
		t.Errorf("both have %s", a["ip"])
	}
}

// Only the holder of a lease is told its machine's job.
func TestDecisionNeedsTheLease(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.decider.job = testJob()
	f.start(t)
	a, b := newStation(t), newStation(t)
	given := a.udhcpc()
	b.udhcpc()
	ask := func(s *station) string {
		return s.run("busybox", "wget", "-q", "-O", "-", "http://10.99.0.1/ipxe?platform=pcbios&mac="+strings.ReplaceAll(a.mac, ":", "-"))
	}
	if got := ask(b); !strings.Contains(got, "booting the local disk") || strings.Contains(got, "kernel") {
		t.Errorf("another machine was given the script:\n%s", got)
	}
	if len(f.decider.questions()) != 0 {
		t.Error("the decider was asked for a stranger")
	}
	if got := ask(a); !strings.Contains(got, "kernel http://10.99.0.1/netboot/vmlinuz") {
		t.Errorf("the machine was not given its script:\n%s", got)
	}
	q := f.decider.questions()
	if len(q) != 1 || q[0].MAC.String() != a.mac || q[0].Address.String() != given["ip"] || q[0].Firmware != inventory.FirmwareBIOS {
		t.Errorf("asked %+v", q)
	}
}

func TestTFTPClients(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.start(t)
	s := newStation(t)
	s.udhcpc()
	want, err := os.ReadFile(filepath.Join(f.config.LoaderDir, "snponly.efi"))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, get := range [][]string{
		{"tftp", "-m", "binary", "10.99.0.1", "-c", "get", "snponly.efi", out}, // tftp-hpa
		{"busybox", "tftp", "-g", "-r", "snponly.efi", "-l", out, "10.99.0.1"},
		{"busybox", "tftp", "-g", "-b", "1468", "-r", "snponly.efi", "-l", out, "10.99.0.1"},
		{"busybox", "tftp", "-g", "-b", "65464", "-r", "/snponly.efi", "-l", out, "10.99.0.1"},
	} {
		s.run(get...)
		got, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes of %d, %v", get, len(got), len(want), err)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"../../etc/passwd", "/etc/passwd", "autoexec.ipxe"} {
		if msg, err := s.command("busybox", "tftp", "-g", "-r", name, "-l", out, "10.99.0.1").CombinedOutput(); err == nil {
			t.Errorf("%s was served: %s", name, msg)
		}
	}
	if msg, err := s.command("busybox", "tftp", "-p", "-l", "/proc/self/comm", "-r", "snponly.efi", "10.99.0.1").CombinedOutput(); err == nil {
		t.Errorf("a write was taken: %s", msg)
	}
}

// What each service sees of a machine is noted by its MAC address.
func TestMachinesAreSighted(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.config.Sightings = sightings.New(time.Now)
	f.start(t)
	s := newStation(t)
	sighted := func() sightings.Sighting { return f.config.Sightings.Of([]string{s.mac}, "") }
	s.udhcpc()
	if v := sighted(); v.DHCP.IsZero() || !v.FirmwareDHCP.IsZero() || !v.TFTP.IsZero() || !v.HTTP.IsZero() {
		t.Errorf("after DHCP of an operating system: %+v", v)
	}
	s.udhcpc("-V", "PXEClient:Arch:00007:UNDI:003016", "-x", "0x5d:0007")
	if v := sighted(); v.FirmwareDHCP.IsZero() || v.Unanswered != "" || !v.TFTP.IsZero() {
		t.Errorf("after DHCP of firmware: %+v", v)
	}
	s.run("busybox", "tftp", "-g", "-r", "snponly.efi", "-l", filepath.Join(t.TempDir(), "out"), "10.99.0.1")
	if v := sighted(); v.TFTP.IsZero() || !v.HTTP.IsZero() {
		t.Errorf("after TFTP: %+v", v)
	}
	s.run("busybox", "wget", "-q", "-O", "-", "http://10.99.0.1/boot.ipxe")
	if v := sighted(); v.HTTP.IsZero() {
		t.Errorf("after HTTP: %+v", v)
	}
}

// socket is a UDP socket in the station's namespace.
func (s *station) socket(at string) net.PacketConn {
	s.t.Helper()
	type result struct {
		conn net.PacketConn
		err  error
	}
	done := make(chan result)
	go func() {
		// The thread is not unlocked, so that it ends with the goroutine and its namespace.
		runtime.LockOSThread()
		ns, err := os.Open("/proc/" + strconv.Itoa(s.pid) + "/ns/net")
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		var conn net.PacketConn
		if err == nil {
			conn, err = net.ListenPacket("udp4", at)
		}
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		s.t.Fatal(r.err)
	}
	s.t.Cleanup(func() { r.conn.Close() })
	return r.conn
}

// A relay in the network forwards a client's packets; answers come to it, from regiond's address.
func TestRelay(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.start(t)
	s := newStation(t)
	s.run("ip", "addr", "add", "10.99.0.250/24", "dev", "eth0")
	relay := s.socket("10.99.0.250:67")
	client := net.HardwareAddr{0x52, 0x54, 0, 0x77, 0, 1}
	info := []byte{1, 4, 'p', 'o', 'r', 't', 2, 3, 1, 2, 3}
	exchange := func(m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
		t.Helper()
		if _, err := relay.WriteTo(m.ToBytes(), &net.UDPAddr{IP: net.IPv4(10, 99, 0, 1), Port: 67}); err != nil {
			t.Fatal(err)
		}
		if err := relay.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 2000)
		n, from, err := relay.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		if from.String() != "10.99.0.1:67" {
			t.Errorf("answer from %s", from)
		}
		if tail := bytes.TrimRight(buf[:n], "\x00"); !bytes.HasSuffix(tail, append(append([]byte{82, byte(len(info))}, info...), 255)) {
			t.Errorf("option 82 is not last or not verbatim: %x", tail[240:])
		}
		answer, err := dhcpv4.FromBytes(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
		if answer.GatewayIPAddr.String() != "10.99.0.250" || answer.ClientHWAddr.String() != client.String() || answer.TransactionID != m.TransactionID {
			t.Errorf("%s", answer.Summary())
		}
		return answer
	}
	relayed := []dhcpv4.Modifier{
		dhcpv4.WithGatewayIP(net.IPv4(10, 99, 0, 250)), dhcpv4.WithGeneric(dhcpv4.OptionRelayAgentInformation, info),
		func(m *dhcpv4.DHCPv4) { m.HopCount = 1 },
	}
	discover, err := dhcpv4.NewDiscovery(client, relayed...)
	if err != nil {
		t.Fatal(err)
	}
	offer := exchange(discover)
	request, err := dhcpv4.NewRequestFromOffer(offer, relayed...)
	if err != nil {
		t.Fatal(err)
	}
	if ack := exchange(request); ack.MessageType() != dhcpv4.MessageTypeAck || !ack.YourIPAddr.Equal(offer.YourIPAddr) {
		t.Errorf("%s", ack.Summary())
	}
	foreign, err := dhcpv4.NewRequestFromOffer(offer, append(relayed,
		dhcpv4.WithoutOption(dhcpv4.OptionServerIdentifier), dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IPv4(192, 168, 3, 4))))...)
	if err != nil {
		t.Fatal(err)
	}
	if nak := exchange(foreign); nak.MessageType() != dhcpv4.MessageTypeNak || !nak.IsBroadcast() {
		t.Errorf("%s", nak.Summary())
	}
}

// Garbage to all ports is counted, and the next client is served.
func TestGarbage(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.start(t)
	s := newStation(t)
	s.udhcpc()
	conn := s.socket("0.0.0.0:0")
	for size := range 300 {
		for _, port := range []int{67, 69} {
			if _, err := conn.WriteTo(bytes.Repeat([]byte{byte(size)}, size), &net.UDPAddr{IP: net.IPv4(10, 99, 0, 1), Port: port}); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, 5*time.Second, "the counters", func() bool {
		return f.counter(t, "regiond_dhcp_drops_total", "reason=malformed") > 200 && f.counter(t, "regiond_tftp_drops_total", "reason=malformed") > 200
	})
	newStation(t).udhcpc()
}

func TestARPProbe(t *testing.T) {
	provisioning(t)
	s := newStation(t)
	s.run("ip", "addr", "add", "10.99.0.100/24", "dev", "eth0")
	p := dhcp.ARPProber{Interface: bridge}
	if user, err := p.Probe(t.Context(), netip.MustParseAddr("10.99.0.100")); err != nil || user.String() != s.mac {
		t.Errorf("used by %s, %v; want %s", user, err, s.mac)
	}
	begun := time.Now()
	if user, err := p.Probe(t.Context(), netip.MustParseAddr("10.99.0.101")); err != nil || user != nil {
		t.Errorf("used by %s, %v", user, err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Probe(ctx, netip.MustParseAddr("10.99.0.101")); err == nil {
		t.Error("a cancelled probe succeeded")
	}
	if _, err := (dhcp.ARPProber{Interface: "nope"}).Probe(t.Context(), seed); err == nil {
		t.Error("probed on an interface that is not there")
	}

	// The whole way: of two addresses one is in use.
	f := newFixture(t)
	f.config.RangeFirst, f.config.RangeLast = netip.MustParseAddr("10.99.0.100"), netip.MustParseAddr("10.99.0.101")
	f.start(t)
	for range 2 {
		if got := newStation(t).command("busybox", "udhcpc", "-f", "-n", "-q", "-t", "3", "-T", "2", "-i", "eth0", "-s", "/bin/true"); got.Run() != nil {
			continue // the second one gets nothing
		}
	}
	if n := f.counter(t, "regiond_dhcp_conflicts_total"); n != 1 {
		t.Errorf("%v conflicts counted", n)
	}
	if n := f.counter(t, "regiond_dhcp_leases"); n != 1 {
		t.Errorf("%v leases, of one free address", n)
	}
	if n := f.counter(t, "regiond_dhcp_exhausted_total"); n == 0 {
		t.Error("exhaustion was not counted")
	}
}
