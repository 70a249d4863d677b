package dhcp

import (
	"bytes"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

func TestParseDrops(t *testing.T) {
	good := message(t, macA, dhcpv4.MessageTypeDiscover)
	change := func(at int, b ...byte) []byte {
		p := bytes.Clone(good)
		copy(p[at:], b)
		return p
	}
	for _, c := range []struct {
		name   string
		packet []byte
		want   errDrop
	}{
		{"empty", nil, errMalformed},
		{"short header", good[:200], errMalformed},
		{"no cookie", change(236, 1, 2, 3, 4), errMalformed},
		{"a reply", change(0, 2), errNotRequest},
		{"Ethernet address of 5 bytes", change(2, 5), errMalformed},
		{"Ethernet address of 200 bytes", change(2, 200), errMalformed},
		{"no message type", change(240, 0, 0, 0), errBOOTP},
		{"option past the end", append(bytes.Clone(good[:240]), 53, 200, 1), errMalformed},
		{"no end option", append(bytes.Clone(good[:240]), 53, 1, 1), errMalformed},
		{"requested address of 3 bytes", message(t, macA, dhcpv4.MessageTypeRequest, generic(dhcpv4.OptionRequestedIPAddress, 1, 2, 3)), errMalformed},
		{"server identifier of 0 bytes", message(t, macA, dhcpv4.MessageTypeRequest, generic(dhcpv4.OptionServerIdentifier)), errMalformed},
		{"link selection of 1 byte", message(t, macA, dhcpv4.MessageTypeRequest, generic(dhcpv4.OptionRelayAgentInformation, 5, 1, 1)), errMalformed},
		{"multicast address", message(t, "01:00:5e:00:00:01", dhcpv4.MessageTypeDiscover), errIdentity},
		{"zero address", message(t, "00:00:00:00:00:00", dhcpv4.MessageTypeDiscover), errIdentity},
		{"InfiniBand without identifier", change(1, 32, 0), errIdentity},
	} {
		if _, err := Parse(c.packet); dropReason(err) != string(c.want) || err == nil {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestClientIsKeyedByMACOnEthernet(t *testing.T) {
	for _, id := range [][]byte{{0, 1, 2, 3}, {1, 0x52, 0x54, 0, 0, 0, 0xa}, {255, 9, 9, 9, 9}} {
		r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover, generic(dhcpv4.OptionClientIdentifier, id...)))
		if r.Client != macA {
			t.Errorf("client %q", r.Client)
		}
	}
	ib := parse(t, message(t, "00:00:00:00:00:00", dhcpv4.MessageTypeDiscover, generic(dhcpv4.OptionClientIdentifier, 255, 1, 2),
		func(m *dhcpv4.DHCPv4) { m.HWType, m.ClientHWAddr = iana.HWTypeInfiniband, nil }))
	if ib.Client != "id:ff0102" {
		t.Errorf("client %q", ib.Client)
	}
}

func TestUUID(t *testing.T) {
	id := []byte{0, 0x3d, 0x2c, 0x1f, 0x6f, 0x5b, 0x4a, 0x6d, 0x4c, 0x8e, 0x7f, 1, 0x23, 0x45, 0x67, 0x89, 0xab}
	r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover, generic(dhcpv4.OptionClientMachineIdentifier, id...)))
	if want := "6f1f2c3d-4a5b-4c6d-8e7f-0123456789ab"; r.Boot.UUID != want {
		t.Errorf("UUID %s, want %s", r.Boot.UUID, want)
	}
	for _, bad := range [][]byte{nil, {0}, id[:16], append([]byte{1}, id[1:]...)} {
		r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover, generic(dhcpv4.OptionClientMachineIdentifier, bad...)))
		if r.Boot.UUID != "" {
			t.Errorf("UUID %s of %x", r.Boot.UUID, bad)
		}
	}
}

// FuzzDHCP runs any packet through all that touches it, up to the bytes of the reply.
func FuzzDHCP(f *testing.F) {
	f.Add(message(f, macA, dhcpv4.MessageTypeDiscover, pxe("PXEClient:Arch:00007", 7)...))
	f.Add(message(f, macA, dhcpv4.MessageTypeRequest, requested("10.99.0.102"), toServer("10.99.0.1")))
	f.Add(message(f, macB, dhcpv4.MessageTypeInform, ciaddr("10.99.0.20"), giaddr("10.99.0.9"), generic(dhcpv4.OptionRelayAgentInformation, 5, 4, 10, 99, 0, 1)))
	f.Add(message(f, macB, dhcpv4.MessageTypeDecline, requested("10.99.0.102")))
	c := testConfig()
	c.DB, c.Prober = tempDB(f), new(fakeProber)
	c.DB.NoSync = true
	s, err := New(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		reply := s.answer(t.Context(), r)
		if reply.Packet == nil {
			return
		}
		if _, err := dhcpv4.FromBytes(reply.Packet.ToBytes()); err != nil {
			t.Errorf("the reply cannot be read: %v", err)
		}
		if a := addr4(reply.Packet.YourIPAddr); a.IsValid() && !c.leasable(a) {
			t.Errorf("%s was leased", a)
		}
	})
}
