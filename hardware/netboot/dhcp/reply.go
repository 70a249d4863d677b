package dhcp

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// base is what every reply has in common (RFC 2131 table 3).
func base(r Request, c Config, t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	q := r.packet
	m := &dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootReply,
		HWType:        q.HWType,
		TransactionID: q.TransactionID,
		Flags:         q.Flags & 0x8000, // the other bits must be zero
		ClientIPAddr:  net.IPv4zero,
		YourIPAddr:    net.IPv4zero,
		ServerIPAddr:  net.IPv4zero,
		GatewayIPAddr: q.GatewayIPAddr,
		ClientHWAddr:  q.ClientHWAddr,
		Options:       make(dhcpv4.Options),
	}
	m.UpdateOption(dhcpv4.OptMessageType(t))
	m.UpdateOption(dhcpv4.OptServerIdentifier(ip(c.Address)))
	// RFC 6842: the client identifier comes back. RFC 3046 section 2.2: relay agent information
	// comes back as it was and last, or the relay drops the reply; the library writes it last.
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionClientIdentifier, dhcpv4.OptionRelayAgentInformation} {
		if v := q.Options.Get(code); v != nil {
			m.UpdateOption(dhcpv4.OptGeneric(code, v))
		}
	}
	return m
}

// answer is an OFFER or ACK. Without an address it answers DHCPINFORM.
func answer(r Request, c Config, t dhcpv4.MessageType, address netip.Addr) Reply {
	m := base(r, c, t)
	if address.IsValid() {
		m.YourIPAddr = ip(address)
		m.UpdateOption(dhcpv4.OptIPAddressLeaseTime(c.LeaseTime))
		// RFC 2131 section 4.4.5: renew at half, rebind at 7/8 of the lease.
		m.UpdateOption(dhcpv4.OptRenewTimeValue(seconds(c.LeaseTime / 2)))
		m.UpdateOption(dhcpv4.OptRebindingTimeValue(seconds(c.LeaseTime / 8 * 7)))
	}
	if t == dhcpv4.MessageTypeAck && r.ClientAddress.IsValid() {
		m.ClientIPAddr = ip(r.ClientAddress)
	}
	m.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(c.Network.Bits(), 32)))
	m.UpdateOption(dhcpv4.OptBroadcastAddress(ip(broadcast(c.Network))))
	if c.Gateway.IsValid() {
		m.UpdateOption(dhcpv4.OptRouter(ip(c.Gateway)))
	}
	if len(c.DNS) > 0 {
		m.UpdateOption(dhcpv4.OptDNS(ips(c.DNS)...))
	}
	if len(c.NTP) > 0 {
		m.UpdateOption(dhcpv4.OptNTPServers(ips(c.NTP)...))
	}
	boot, unsupported := loader(r.Boot, c.Address)
	boot.apply(m, r, c)
	return Reply{Packet: m, To: destination(r, false), Unsupported: unsupported}
}

// nak refuses an address. Behind a relay the broadcast flag must be set, for the client does
// not hold a valid address (RFC 2131 section 4.3.2).
func nak(r Request, c Config, why string) Reply {
	m := base(r, c, dhcpv4.MessageTypeNak)
	m.UpdateOption(dhcpv4.OptMessage(why))
	if r.Relay.IsValid() {
		m.SetBroadcast()
	}
	return Reply{Packet: m, To: destination(r, true)}
}

// boot is what firmware is told to fetch.
type boot struct {
	// file is the boot file: a TFTP path or an HTTP URL.
	file string
	// vendor is the option 60 that the firmware wants to see back.
	vendor string
}

// Loaders that are served over TFTP, and SNP's over HTTP too.
const (
	LoaderBIOS = "undionly.kpxe"
	LoaderUEFI = "snponly.efi"
	// PathLoader is where the HTTP server has LoaderUEFI.
	PathLoader = "/netboot/" + LoaderUEFI
	// PathScript is iPXE's bootstrap script.
	PathScript = "/boot.ipxe"
)

// loader chooses the boot file by the architectures of option 93. Both loaders drive the network
// card through the firmware: iPXE's own drivers hang on some cards (ipxe#1479, #972).
func loader(f Firmware, server netip.Addr) (b boot, unsupported bool) {
	if f.IPXE {
		return boot{file: "http://" + server.String() + PathScript}, false
	}
	pxe, http := hasPrefix(f.VendorClass, vendorPXE), hasPrefix(f.VendorClass, vendorHTTP)
	if !pxe && !http {
		return boot{}, false
	}
	for _, arch := range f.Architectures {
		switch {
		case pxe && arch == iana.INTEL_X86PC:
			return boot{file: LoaderBIOS, vendor: vendorPXE}, false
		// 7 and 9 were swapped in RFC 4578 (erratum 1815); firmware for x86-64 sends either.
		case pxe && (arch == iana.EFI_BC || arch == iana.EFI_X86_64):
			return boot{file: LoaderUEFI, vendor: vendorPXE}, false
		case http && arch == iana.EFI_X86_64_HTTP:
			return boot{file: "http://" + server.String() + PathLoader, vendor: vendorHTTP}, false
		}
	}
	return boot{}, true
}

// Vendor classes of RFC 4578 section 3 and of UEFI 2.10 section 24.7.3.1.
const (
	vendorPXE  = "PXEClient"
	vendorHTTP = "HTTPClient"
)

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// apply writes the boot file into the reply, in the header and as an option: some firmware
// reads only one of them. The option ends with a zero byte, as dnsmasq's does, for firmware that reads
// it up to the next one; others delete it (RFC 2132 section 2).
func (b boot) apply(m *dhcpv4.DHCPv4, r Request, c Config) {
	if b.file == "" {
		return
	}
	m.ServerIPAddr = ip(c.Address)
	m.BootFileName = b.file
	m.UpdateOption(dhcpv4.OptTFTPServerName(c.Address.String()))
	m.UpdateOption(dhcpv4.OptBootFileName(b.file + "\x00"))
	if b.vendor == "" {
		return
	}
	m.UpdateOption(dhcpv4.OptClassIdentifier(b.vendor))
	if id := r.packet.Options.Get(dhcpv4.OptionClientMachineIdentifier); id != nil {
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, id))
	}
	if b.vendor == vendorPXE {
		// PXE 2.1 table 2-1: PXE_DISCOVERY_CONTROL = 8, boot the file named here without asking
		// a boot server on port 4011.
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))
	}
}

func ip(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func ips(as []netip.Addr) []net.IP {
	out := make([]net.IP, 0, len(as))
	for _, a := range as {
		out = append(out, ip(a))
	}
	return out
}

// seconds cuts to whole seconds, the unit on the wire.
func seconds(d time.Duration) time.Duration { return d.Truncate(time.Second) }
