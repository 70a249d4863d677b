package dhcp

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func TestDecide(t *testing.T) {
	const free = ""
	bound := func(a string) Lease {
		return Lease{Address: addr(a), Client: macA, State: StateBound, Expires: t0.Add(time.Hour)}
	}
	offered := func(a string) Lease {
		return Lease{Address: addr(a), Client: macA, State: StateOffered, Expires: t0.Add(time.Minute)}
	}
	for _, c := range []struct {
		name       string
		kind       dhcpv4.MessageType
		mods       []dhcpv4.Modifier
		own, asked Lease

		reply   dhcpv4.MessageType // None for no reply
		drop    string
		address string // yiaddr
		to      string
		effect  Effect
		expires time.Duration
	}{
		{name: "discover", kind: dhcpv4.MessageTypeDiscover, own: offered("10.99.0.102"),
			reply: dhcpv4.MessageTypeOffer, address: "10.99.0.102", to: "255.255.255.255:68"},
		{name: "discover, broadcast flag clear", kind: dhcpv4.MessageTypeDiscover, mods: []dhcpv4.Modifier{dhcpv4.WithBroadcast(false)}, own: offered("10.99.0.102"),
			reply: dhcpv4.MessageTypeOffer, address: "10.99.0.102", to: "255.255.255.255:68"},
		{name: "discover, exhausted", kind: dhcpv4.MessageTypeDiscover, drop: "exhausted"},
		{name: "discover through a relay", kind: dhcpv4.MessageTypeDiscover, mods: []dhcpv4.Modifier{giaddr("10.99.0.254")}, own: offered("10.99.0.102"),
			reply: dhcpv4.MessageTypeOffer, address: "10.99.0.102", to: "10.99.0.254:67"},
		{name: "discover through a relay of another network", kind: dhcpv4.MessageTypeDiscover, mods: []dhcpv4.Modifier{giaddr("192.168.7.1")}, own: offered("10.99.0.102"),
			drop: "foreign-network"},
		{name: "discover, link selection outweighs giaddr", kind: dhcpv4.MessageTypeDiscover,
			mods: []dhcpv4.Modifier{giaddr("192.168.7.1"), generic(dhcpv4.OptionRelayAgentInformation, 5, 4, 10, 99, 0, 254)}, own: offered("10.99.0.102"),
			reply: dhcpv4.MessageTypeOffer, address: "10.99.0.102", to: "192.168.7.1:67"},

		{name: "selecting", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{toServer("10.99.0.1"), requested("10.99.0.102")}, own: offered("10.99.0.102"), asked: offered("10.99.0.102"),
			reply: dhcpv4.MessageTypeAck, address: "10.99.0.102", to: "255.255.255.255:68", effect: EffectBind, expires: time.Hour},
		{name: "selecting another server", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{toServer("10.99.0.2"), requested("10.99.0.55")}, own: offered("10.99.0.102"),
			drop: "other-server", effect: EffectWithdraw},
		{name: "selecting another server, holding a lease", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{toServer("10.99.0.2"), requested("10.99.0.55")}, own: bound("10.99.0.102"),
			drop: "other-server"},
		{name: "selecting what was not offered", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{toServer("10.99.0.1"), requested("10.99.0.103")}, own: offered("10.99.0.102"),
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "init-reboot", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("10.99.0.102")}, own: bound("10.99.0.102"), asked: bound("10.99.0.102"),
			reply: dhcpv4.MessageTypeAck, address: "10.99.0.102", to: "255.255.255.255:68", effect: EffectBind, expires: time.Hour},
		{name: "init-reboot, foreign address", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("192.168.1.5")},
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "init-reboot, foreign address, relay", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("192.168.1.5"), giaddr("10.99.0.254")},
			reply: dhcpv4.MessageTypeNak, to: "10.99.0.254:67"},
		{name: "init-reboot, out of range", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("10.99.0.50")},
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "init-reboot, the gateway's", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("10.99.0.101")},
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "init-reboot, held by another", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("10.99.0.103")},
			asked: Lease{Address: addr("10.99.0.103"), Client: macB, State: StateBound, Expires: t0.Add(time.Hour)},
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "init-reboot, in quarantine", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("10.99.0.103")},
			asked: Lease{Address: addr("10.99.0.103"), State: StateQuarantined, Expires: t0.Add(time.Hour)},
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "init-reboot, database lost", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{requested("10.99.0.103")}, asked: Lease{Address: addr("10.99.0.103")},
			reply: dhcpv4.MessageTypeAck, address: "10.99.0.103", to: "255.255.255.255:68", effect: EffectBind, expires: time.Hour},
		{name: "renewing", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{ciaddr("10.99.0.102")}, own: bound("10.99.0.102"), asked: bound("10.99.0.102"),
			reply: dhcpv4.MessageTypeAck, address: "10.99.0.102", to: "10.99.0.102:68", effect: EffectBind, expires: time.Hour},
		{name: "renewing what is another's", kind: dhcpv4.MessageTypeRequest, mods: []dhcpv4.Modifier{ciaddr("10.99.0.103")}, own: bound("10.99.0.102"),
			reply: dhcpv4.MessageTypeNak, to: "255.255.255.255:68"},
		{name: "request for nothing", kind: dhcpv4.MessageTypeRequest, drop: "malformed"},

		{name: "inform", kind: dhcpv4.MessageTypeInform, mods: []dhcpv4.Modifier{ciaddr("10.99.0.20")},
			reply: dhcpv4.MessageTypeAck, to: "10.99.0.20:68"},
		{name: "inform from elsewhere", kind: dhcpv4.MessageTypeInform, mods: []dhcpv4.Modifier{ciaddr("8.8.8.8")}, drop: "foreign-network"},
		{name: "release", kind: dhcpv4.MessageTypeRelease, mods: []dhcpv4.Modifier{ciaddr("10.99.0.102"), toServer("10.99.0.1")}, own: bound("10.99.0.102"),
			drop: "release", effect: EffectRelease},
		{name: "release of another's", kind: dhcpv4.MessageTypeRelease, mods: []dhcpv4.Modifier{ciaddr("10.99.0.103")}, own: bound("10.99.0.102"), drop: "no-lease"},
		{name: "release of nothing", kind: dhcpv4.MessageTypeRelease, drop: "no-lease"},
		{name: "decline", kind: dhcpv4.MessageTypeDecline, mods: []dhcpv4.Modifier{requested("10.99.0.102"), toServer("10.99.0.1")}, own: bound("10.99.0.102"),
			drop: "decline", effect: EffectQuarantine, expires: quarantine},
		{name: "decline of another's", kind: dhcpv4.MessageTypeDecline, mods: []dhcpv4.Modifier{requested("10.99.0.103")}, own: bound("10.99.0.102"), drop: "no-lease"},
		{name: "decline of nothing", kind: dhcpv4.MessageTypeDecline, drop: "no-lease"},
		{name: "an offer to a server", kind: dhcpv4.MessageTypeOffer, drop: "unexpected-type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Decide(parse(t, message(t, macA, c.kind, c.mods...)), Leases{Own: c.own, Asked: c.asked}, testConfig(), t0)
			if got.Drop != c.drop || got.Effect != c.effect {
				t.Errorf("drop %q effect %d, want %q %d", got.Drop, got.Effect, c.drop, c.effect)
			}
			if c.expires != 0 && got.Expires != t0.Add(c.expires) {
				t.Errorf("expires %s", got.Expires)
			}
			if c.reply == dhcpv4.MessageTypeNone {
				if got.Packet != nil {
					t.Fatalf("answered: %s", got.Packet.Summary())
				}
				return
			}
			if got.Packet == nil || got.Packet.MessageType() != c.reply {
				t.Fatalf("reply %v, want %s", got.Packet, c.reply)
			}
			m := reparse(t, got.Packet)
			if want := c.address; want == free != m.YourIPAddr.IsUnspecified() || want != free && m.YourIPAddr.String() != want {
				t.Errorf("yiaddr %s, want %q", m.YourIPAddr, want)
			}
			if got.To.String() != c.to {
				t.Errorf("to %s, want %s", got.To, c.to)
			}
			if m.ServerIdentifier().String() != "10.99.0.1" {
				t.Errorf("server identifier %s", m.ServerIdentifier())
			}
			if c.reply == dhcpv4.MessageTypeNak && !m.GatewayIPAddr.IsUnspecified() && !m.IsBroadcast() {
				t.Error("a relayed NAK lacks the broadcast flag")
			}
			if has := m.Options.Has(dhcpv4.OptionIPAddressLeaseTime); has != (c.address != free) {
				t.Errorf("lease time present: %v", has)
			}
		})
	}
}

// reparse reads a reply as a client does.
func reparse(t *testing.T, m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	b := m.ToBytes()
	if len(b) < 300 || len(b) > dhcpv4.MaxMessageSize {
		t.Errorf("packet of %d bytes", len(b))
	}
	m, err := dhcpv4.FromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParameters(t *testing.T) {
	own := Lease{Address: addr("10.99.0.102"), Client: macA, State: StateOffered}
	r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover, generic(dhcpv4.OptionClientIdentifier, 255, 1, 2, 3)))
	m := reparse(t, Decide(r, Leases{Own: own}, testConfig(), t0).Packet)
	for _, c := range []struct {
		code dhcpv4.OptionCode
		want []byte
	}{
		{dhcpv4.OptionSubnetMask, []byte{255, 255, 255, 0}},
		{dhcpv4.OptionRouter, []byte{10, 99, 0, 101}},
		{dhcpv4.OptionDomainNameServer, []byte{10, 99, 0, 1}},
		{dhcpv4.OptionNTPServers, []byte{10, 99, 0, 1}},
		{dhcpv4.OptionBroadcastAddress, []byte{10, 99, 0, 255}},
		{dhcpv4.OptionIPAddressLeaseTime, []byte{0, 0, 14, 16}},
		{dhcpv4.OptionRenewTimeValue, []byte{0, 0, 7, 8}},
		{dhcpv4.OptionRebindingTimeValue, []byte{0, 0, 12, 78}},
		{dhcpv4.OptionClientIdentifier, []byte{255, 1, 2, 3}},
		{dhcpv4.OptionBootfileName, nil},
		{dhcpv4.OptionClassIdentifier, nil},
	} {
		if got := m.Options.Get(c.code); !bytes.Equal(got, c.want) {
			t.Errorf("option %s is %v, want %v", c.code, got, c.want)
		}
	}
	if m.BootFileName != "" || !m.ServerIPAddr.IsUnspecified() {
		t.Errorf("boot file %q from %s for a client that does not netboot", m.BootFileName, m.ServerIPAddr)
	}
}

// RFC 3046 section 2.2: echoed verbatim, after all others.
func TestRelayAgentInformationComesBackLast(t *testing.T) {
	long := append([]byte{1, 250}, bytes.Repeat([]byte{7}, 250)...)
	for _, info := range [][]byte{{1, 4, 'e', 't', 'h', '1', 2, 2, 0xab, 0xcd}, {1, 200, 3}, {0xff}, append(long, 2, 40)} {
		r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover, giaddr("10.99.0.254"), generic(dhcpv4.OptionRelayAgentInformation, info...)))
		b := Decide(r, Leases{Own: Lease{Address: addr("10.99.0.102")}}, testConfig(), t0).Packet.ToBytes()
		var wire []byte // RFC 3396: at most 255 bytes a piece
		for rest := info; len(rest) > 0; {
			n := min(len(rest), 255)
			wire = append(append(wire, 82, byte(n)), rest[:n]...)
			rest = rest[n:]
		}
		if !bytes.HasSuffix(bytes.TrimRight(b, "\x00"), append(wire, 255)) {
			t.Errorf("option 82 %x is not the last of %x", info, b[240:])
		}
	}
}

func TestLoader(t *testing.T) {
	uuid := append([]byte{0}, bytes.Repeat([]byte{0x11}, 16)...)
	for _, c := range []struct {
		name         string
		mods         []dhcpv4.Modifier
		file, vendor string
		discovery    bool // option 43
		unsupported  bool
	}{
		{name: "BIOS", mods: pxe("PXEClient:Arch:00000:UNDI:002001", 0), file: "undionly.kpxe", vendor: "PXEClient", discovery: true},
		{name: "UEFI 7", mods: pxe("PXEClient:Arch:00007:UNDI:003016", 7), file: "snponly.efi", vendor: "PXEClient", discovery: true},
		{name: "UEFI 9", mods: pxe("PXEClient:Arch:00009:UNDI:003016", 9), file: "snponly.efi", vendor: "PXEClient", discovery: true},
		{name: "second of two architectures", mods: pxe("PXEClient", 6, 7), file: "snponly.efi", vendor: "PXEClient", discovery: true},
		{name: "HTTP", mods: pxe("HTTPClient:Arch:00016:UNDI:003001", 16), file: "http://10.99.0.1/netboot/snponly.efi", vendor: "HTTPClient"},
		{name: "ARM", mods: pxe("PXEClient:Arch:00011:UNDI:003000", 11), unsupported: true},
		{name: "ARM HTTP", mods: pxe("HTTPClient:Arch:00019:UNDI:003000", 19), unsupported: true},
		{name: "no architecture", mods: []dhcpv4.Modifier{text(dhcpv4.OptionClassIdentifier, "PXEClient")}, unsupported: true},
		{name: "iPXE", mods: append(pxe("PXEClient:Arch:00007:UNDI:003010", 7), text(dhcpv4.OptionUserClassInformation, "iPXE")), file: "http://10.99.0.1/boot.ipxe"},
		{name: "iPXE on ARM", mods: append(pxe("PXEClient:Arch:00011:UNDI:003010", 11), text(dhcpv4.OptionUserClassInformation, "iPXE")), file: "http://10.99.0.1/boot.ipxe"},
		{name: "iPXE as RFC 3004", mods: []dhcpv4.Modifier{text(dhcpv4.OptionUserClassInformation, "\x04iPXE")}, file: "http://10.99.0.1/boot.ipxe"},
		{name: "operating system", mods: []dhcpv4.Modifier{text(dhcpv4.OptionClassIdentifier, "udhcp 1.35.0")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mods := append(c.mods, generic(dhcpv4.OptionClientMachineIdentifier, uuid...))
			r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover, mods...))
			reply := Decide(r, Leases{Own: Lease{Address: addr("10.99.0.102")}}, testConfig(), t0)
			m := reparse(t, reply.Packet)
			option := m.Options.Get(dhcpv4.OptionBootfileName)
			if m.BootFileName != c.file || strings.TrimSuffix(string(option), "\x00") != c.file {
				t.Errorf("file %q, option 67 %q, want %q", m.BootFileName, option, c.file)
			}
			if c.file != "" && !bytes.HasSuffix(option, []byte{0}) {
				t.Errorf("option 67 is %q, want a zero byte at its end", option)
			}
			if m.ClassIdentifier() != c.vendor {
				t.Errorf("option 60 %q, want %q", m.ClassIdentifier(), c.vendor)
			}
			if got := m.Options.Get(dhcpv4.OptionVendorSpecificInformation); c.discovery != bytes.Equal(got, []byte{6, 1, 8, 255}) {
				t.Errorf("option 43 %v", got)
			}
			if c.file != "" && (m.ServerIPAddr.String() != "10.99.0.1" || m.TFTPServerName() != "10.99.0.1") {
				t.Errorf("siaddr %s, option 66 %q", m.ServerIPAddr, m.TFTPServerName())
			}
			if c.vendor != "" && !bytes.Equal(m.Options.Get(dhcpv4.OptionClientMachineIdentifier), uuid) {
				t.Error("option 97 did not come back")
			}
			if reply.Unsupported != c.unsupported {
				t.Errorf("unsupported %v", reply.Unsupported)
			}
		})
	}
}

func pxe(class string, archs ...byte) []dhcpv4.Modifier {
	var v []byte
	for _, a := range archs {
		v = append(v, 0, a)
	}
	return []dhcpv4.Modifier{text(dhcpv4.OptionClassIdentifier, class), generic(dhcpv4.OptionClientSystemArchitectureType, v...)}
}

func TestLeasable(t *testing.T) {
	c := testConfig()
	c.RangeFirst, c.RangeLast = addr("10.99.0.0"), addr("10.99.0.255")
	c.Gateway, c.DNS, c.NTP = addr("10.99.0.2"), []netip.Addr{addr("10.99.0.3")}, []netip.Addr{addr("10.99.0.4")}
	c.Reserved = []netip.Addr{addr("10.99.0.5")}
	for last := range 256 {
		a := netip.AddrFrom4([4]byte{10, 99, 0, byte(last)})
		want := last > 5 && last < 255
		if c.leasable(a) != want {
			t.Errorf("%s leasable: %v", a, !want)
		}
	}
	for _, a := range []netip.Addr{{}, addr("10.98.255.255"), addr("10.99.1.0"), addr("::1")} {
		if c.leasable(a) {
			t.Errorf("%s is leasable", a)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"address outside":  func(c *Config) { c.Address = addr("10.98.0.1") },
		"range outside":    func(c *Config) { c.RangeLast = addr("10.99.1.3") },
		"range reversed":   func(c *Config) { c.RangeFirst, c.RangeLast = c.RangeLast, c.RangeFirst },
		"short lease time": func(c *Config) { c.LeaseTime = time.Second },
	} {
		c := testConfig()
		change(&c)
		if err := c.validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := testConfig().validate(); err != nil {
		t.Error(err)
	}
}
