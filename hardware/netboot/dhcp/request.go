package dhcp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// Request is a client's message, reduced to what decisions need.
type Request struct {
	Type dhcpv4.MessageType
	// Client is the key under which its lease is kept: see clientKey.
	Client string
	// MAC is chaddr. Empty on links whose addresses do not fit (RFC 4390).
	MAC net.HardwareAddr
	// ClientAddress is ciaddr, Relay is giaddr. Invalid when zero on the wire.
	ClientAddress, Relay netip.Addr
	// Link is the address whose network the client is on, when a relay says so (RFC 3527).
	Link netip.Addr
	// Requested is option 50, Server is option 54. Invalid when absent.
	Requested, Server netip.Addr
	// Boot is what the client says of its firmware.
	Boot Firmware

	packet *dhcpv4.DHCPv4
}

// Firmware is what a netbooting client says of itself.
type Firmware struct {
	// VendorClass is option 60, e.g. PXEClient:Arch:00007:UNDI:003016.
	VendorClass string
	// Architectures from option 93 (RFC 4578, IANA registry).
	Architectures iana.Archs
	// IPXE says that iPXE asks, and not the firmware.
	IPXE bool
	// UUID of the machine, option 97, or empty.
	UUID string
}

// errDrop is why a packet is not answered; its text is the label of the counter.
type errDrop string

func (e errDrop) Error() string { return string(e) }

// Reasons for dropping a packet before a decision is made.
const (
	errMalformed  = errDrop("malformed")
	errNotRequest = errDrop("not-a-request")
	errBOOTP      = errDrop("bootp")
	errIdentity   = errDrop("no-client-identity")
)

// Parse reads a packet. The error is always one of the reasons, wrapped.
func Parse(b []byte) (Request, error) {
	m, err := dhcpv4.FromBytes(b)
	if err != nil {
		return Request{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if m.OpCode != dhcpv4.OpcodeBootRequest {
		return Request{}, errNotRequest
	}
	// hlen: the library cuts it to 16, but Ethernet's is 6 and nothing else.
	if m.HWType == iana.HWTypeEthernet && len(m.ClientHWAddr) != 6 {
		return Request{}, fmt.Errorf("%w: hardware address of %d bytes", errMalformed, len(m.ClientHWAddr))
	}
	r := Request{
		MAC:           m.ClientHWAddr,
		ClientAddress: addr4(m.ClientIPAddr),
		Relay:         addr4(m.GatewayIPAddr),
		packet:        m,
	}
	if !m.Options.Has(dhcpv4.OptionDHCPMessageType) {
		return Request{}, errBOOTP
	}
	if r.Type = m.MessageType(); r.Type == dhcpv4.MessageTypeNone {
		return Request{}, fmt.Errorf("%w: message type", errMalformed)
	}
	if r.Requested, err = addressOption(m, dhcpv4.OptionRequestedIPAddress); err != nil {
		return Request{}, err
	}
	if r.Server, err = addressOption(m, dhcpv4.OptionServerIdentifier); err != nil {
		return Request{}, err
	}
	if r.Link, err = link(m); err != nil {
		return Request{}, err
	}
	if r.Client, err = clientKey(m); err != nil {
		return Request{}, err
	}
	r.Boot = firmware(m)
	return r, nil
}

// clientKey names the client. On Ethernet it is the MAC address, although RFC 2131 section 4.2
// prefers the client identifier: on its way to an installed system one machine shows up to four
// identifiers (the ROM its UUID, iPXE its MAC address, systemd a DUID) and would hold as many
// addresses at a time. Other links are told apart by the identifier, as RFC 4390 demands.
func clientKey(m *dhcpv4.DHCPv4) (string, error) {
	if m.HWType == iana.HWTypeEthernet {
		mac := m.ClientHWAddr
		if mac[0]&1 != 0 || bytes.Equal(mac, make([]byte, len(mac))) {
			return "", fmt.Errorf("%w: hardware address %s is not that of a station", errIdentity, mac)
		}
		return mac.String(), nil
	}
	id := m.Options.Get(dhcpv4.OptionClientIdentifier)
	if len(id) < 2 {
		return "", fmt.Errorf("%w: hardware type %d without a client identifier", errIdentity, m.HWType)
	}
	return "id:" + hex.EncodeToString(id), nil
}

// firmware reads the options of RFC 4578.
func firmware(m *dhcpv4.DHCPv4) Firmware {
	f := Firmware{
		VendorClass:   m.ClassIdentifier(),
		Architectures: m.ClientArch(),
	}
	// iPXE sends the bare string, RFC 3004 wants a length before it: take both.
	switch string(m.Options.Get(dhcpv4.OptionUserClassInformation)) {
	case "iPXE", "\x04iPXE":
		f.IPXE = true
	}
	if id := m.Options.Get(dhcpv4.OptionClientMachineIdentifier); len(id) == 17 && id[0] == 0 {
		f.UUID = formatUUID([16]byte(id[1:]))
	}
	return f
}

// netboots says whether network boot firmware or iPXE asks, and not an operating system.
func (f Firmware) netboots() bool {
	return f.IPXE || strings.HasPrefix(f.VendorClass, "PXEClient") || strings.HasPrefix(f.VendorClass, "HTTPClient")
}

// formatUUID prints a UUID as SMBIOS does: its first three fields are little-endian (SMBIOS 2.6,
// section 7.2.1).
func formatUUID(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x",
		[]byte{u[3], u[2], u[1], u[0]}, []byte{u[5], u[4]}, []byte{u[7], u[6]}, u[8:10], u[10:])
}

// subOptionLinkSelection is RFC 3527's.
const subOptionLinkSelection = 5

// link reads the relay's link selection, if any.
func link(m *dhcpv4.DHCPv4) (netip.Addr, error) {
	raw := m.Options.Get(dhcpv4.OptionRelayAgentInformation)
	if raw == nil {
		return netip.Addr{}, nil
	}
	sub := make(dhcpv4.Options)
	// Relays need not end their sub-options, and padding is not defined there: what cannot be
	// read is still echoed, so only a link selection of a wrong length is an error.
	if err := sub.FromBytes(raw); err != nil {
		return netip.Addr{}, nil
	}
	v, ok := sub[subOptionLinkSelection]
	if !ok {
		return netip.Addr{}, nil
	}
	if len(v) != 4 {
		return netip.Addr{}, fmt.Errorf("%w: link selection of %d bytes", errMalformed, len(v))
	}
	return netip.AddrFrom4([4]byte(v)), nil
}

// addressOption reads an option that holds one IPv4 address.
func addressOption(m *dhcpv4.DHCPv4, code dhcpv4.OptionCode) (netip.Addr, error) {
	if !m.Options.Has(code) {
		return netip.Addr{}, nil
	}
	v := m.Options.Get(code)
	if len(v) != 4 {
		return netip.Addr{}, fmt.Errorf("%w: option %d of %d bytes", errMalformed, code.Code(), len(v))
	}
	return addr4(v), nil
}

// addr4 converts, taking 0.0.0.0 as absent.
func addr4(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// dropReason is the counter's label for an error of Parse.
func dropReason(err error) string {
	var d errDrop
	if errors.As(err, &d) {
		return string(d)
	}
	return string(errMalformed)
}
