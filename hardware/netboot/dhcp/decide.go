package dhcp

import (
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Effect is what a reply does to the leases. It is made durable before the reply is sent
// (RFC 2131 section 3.1.4: the server commits the binding, then sends DHCPACK).
type Effect int

// Effects.
const (
	EffectNone       Effect = iota
	EffectBind              // Reply.Address is the client's until Reply.Expires
	EffectRelease           // the client gave Reply.Address back
	EffectQuarantine        // Reply.Address is used by a stranger until Reply.Expires
	EffectWithdraw          // the client took another server's offer
)

// Reply is what is to be done about a request.
type Reply struct {
	// Packet to send, nil for none.
	Packet *dhcpv4.DHCPv4
	// To is where it goes.
	To netip.AddrPort
	// Drop says why nothing is sent, in one word for the counter.
	Drop string
	// Unsupported says that no boot loader exists for the client's architecture.
	Unsupported bool

	Effect  Effect
	Address netip.Addr
	Expires time.Time
}

// quarantine is how long an address rests after a client found it in use.
const quarantine = 10 * time.Minute

// Decide answers a request. It has no effects; known is what the pool holds about the client
// and about the address that it asks for.
func Decide(r Request, known Leases, c Config, now time.Time) Reply {
	if !onLink(r, c) {
		return Reply{Drop: "foreign-network"}
	}
	if r.Server.IsValid() && r.Server != c.Address {
		if r.Type == dhcpv4.MessageTypeRequest && known.Own.State == StateOffered {
			return Reply{Drop: "other-server", Effect: EffectWithdraw, Address: known.Own.Address}
		}
		return Reply{Drop: "other-server"}
	}
	switch r.Type {
	case dhcpv4.MessageTypeDiscover:
		if !known.Own.Address.IsValid() {
			return Reply{Drop: "exhausted"}
		}
		return answer(r, c, dhcpv4.MessageTypeOffer, known.Own.Address)
	case dhcpv4.MessageTypeRequest:
		return request(r, known, c, now)
	case dhcpv4.MessageTypeInform:
		// RFC 2131 section 4.3.5: parameters only, no address, no lease time.
		if !c.Network.Contains(r.ClientAddress) {
			return Reply{Drop: "foreign-network"}
		}
		return answer(r, c, dhcpv4.MessageTypeAck, netip.Addr{})
	case dhcpv4.MessageTypeRelease:
		if !known.Own.Address.IsValid() || r.ClientAddress != known.Own.Address {
			return Reply{Drop: "no-lease"}
		}
		return Reply{Drop: "release", Effect: EffectRelease, Address: r.ClientAddress, Expires: now}
	case dhcpv4.MessageTypeDecline:
		// Only the one who was given the address may call it bad, or anyone could empty the range.
		if !known.Own.Address.IsValid() || r.Requested != known.Own.Address {
			return Reply{Drop: "no-lease"}
		}
		return Reply{Drop: "decline", Effect: EffectQuarantine, Address: r.Requested, Expires: now.Add(quarantine)}
	default:
		return Reply{Drop: "unexpected-type"}
	}
}

// onLink says whether the client is on the network that the addresses are for: directly, or
// behind a relay in it (RFC 2131 section 4.3.1).
func onLink(r Request, c Config) bool {
	switch {
	case r.Link.IsValid():
		return c.Network.Contains(r.Link)
	case r.Relay.IsValid():
		return c.Network.Contains(r.Relay)
	}
	return true
}

// request answers DHCPREQUEST in all its states (RFC 2131 section 4.3.2).
func request(r Request, known Leases, c Config, now time.Time) Reply {
	wanted := r.Requested // SELECTING, INIT-REBOOT
	if !wanted.IsValid() {
		wanted = r.ClientAddress // RENEWING, REBINDING
	}
	if !wanted.IsValid() {
		return Reply{Drop: string(errMalformed)}
	}
	if !grantable(wanted, r.Client, known, c) {
		return nak(r, c, "address "+wanted.String()+" is not yours")
	}
	reply := answer(r, c, dhcpv4.MessageTypeAck, wanted)
	reply.Effect, reply.Address, reply.Expires = EffectBind, wanted, now.Add(c.LeaseTime)
	return reply
}

// grantable says whether a client may have the address that it asks for. An address that
// nothing is known of is granted and not met with silence: this server is the only one on its
// network, and after losing its database it learns the leases again from those who hold them.
func grantable(wanted netip.Addr, client string, known Leases, c Config) bool {
	if !c.leasable(wanted) {
		return false
	}
	if known.Own.Address.IsValid() {
		return known.Own.Address == wanted
	}
	return known.Asked.Client == "" && known.Asked.State == StateFree
}

// destination of a reply, RFC 2131 section 4.1. A client that has no address yet could be
// reached by a frame to its MAC address when it left the broadcast flag clear. It is sent a
// broadcast all the same, which the RFC allows and every PXE ROM accepts.
func destination(r Request, nak bool) netip.AddrPort {
	switch {
	case r.Relay.IsValid():
		return netip.AddrPortFrom(r.Relay, ServerPort)
	case !nak && r.ClientAddress.IsValid() && r.Type != dhcpv4.MessageTypeDiscover:
		return netip.AddrPortFrom(r.ClientAddress, ClientPort)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), ClientPort)
}
