package check

import (
	"encoding/binary"
	"math/bits"
	"net"
	"net/netip"
	"strings"

	"regiond.dev/regiond/region"
)

// addressRange is an IPv4 range, both ends included.
type addressRange struct{ first, last netip.Addr }

func (r addressRange) contains(a netip.Addr) bool {
	return a.IsValid() && r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0
}

func (r addressRange) overlaps(o addressRange) bool {
	return r.first.Compare(o.last) <= 0 && o.first.Compare(r.last) <= 0
}

// betterRange guesses what a range that ParseRange refuses was meant to be.
func betterRange(s string) string {
	try := func(candidate string) string {
		if _, _, err := region.ParseRange(candidate); err != nil || candidate == s {
			return ""
		}
		return candidate
	}
	if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is4() && p.Bits() <= 30 {
		return try(hostRange(p.Masked()))
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
		return try(s + "-" + s)
	}
	clean := strings.NewReplacer(" ", "", "–", "-", "..", "-", ",", "-").Replace(s)
	from, to, _ := strings.Cut(clean, "-")
	first, err := netip.ParseAddr(from)
	if err == nil && first.Is4() && !strings.Contains(to, ".") {
		to = from[:strings.LastIndex(from, ".")+1] + to // 10.0.0.10-50
	}
	if last, err2 := netip.ParseAddr(to); err == nil && err2 == nil && last.Less(first) {
		return try(to + "-" + from)
	}
	return try(from + "-" + to)
}

// hostRange is the range of all addresses that hosts of a network can have.
func hostRange(p netip.Prefix) string {
	return p.Addr().Next().String() + "-" + broadcast(p).Prev().String()
}

// broadcast is the last address of an IPv4 network (RFC 919).
func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	last := binary.BigEndian.Uint32(a[:]) | ^uint32(0)>>p.Bits()
	binary.BigEndian.PutUint32(a[:], last)
	return netip.AddrFrom4(a)
}

// notAHost says why a host cannot have the address in the network, or "".
func notAHost(a netip.Addr, p netip.Prefix) string {
	if !p.Addr().Is4() || p.Bits() > 30 { // RFC 3021: a /31 has neither
		return ""
	}
	switch a {
	case p.Masked().Addr():
		return "the network address"
	case broadcast(p):
		return "the broadcast address"
	}
	return ""
}

// reserved says what an IPv4 network is set aside for, if no host or pod can be in it, or "".
func reserved(p netip.Prefix) string {
	for _, r := range []struct{ prefix, use string }{
		{"0.0.0.0/8", "this host (RFC 1122 section 3.2.1.3)"},
		{"127.0.0.0/8", "loopback (RFC 1122 section 3.2.1.3)"},
		{"169.254.0.0/16", "link-local addresses (RFC 3927)"},
		{"224.0.0.0/4", "multicast (RFC 5771)"},
		{"240.0.0.0/4", "future use (RFC 1112 section 4)"},
	} {
		if p.Overlaps(netip.MustParsePrefix(r.prefix)) {
			return r.use
		}
	}
	return ""
}

// betterCIDR guesses what a network that is not one was meant to be.
func betterCIDR(s string) string {
	clean := strings.ReplaceAll(s, " ", "")
	if p, err := netip.ParsePrefix(clean); err == nil {
		return p.Masked().String()
	}
	address, mask, found := strings.Cut(clean, "/")
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is4() {
		return ""
	}
	if !found {
		return ""
	}
	m, err := netip.ParseAddr(mask) // 10.0.0.0/255.255.255.0
	if err != nil || !m.Is4() {
		return ""
	}
	four := m.As4()
	ones, size := net.IPMask(four[:]).Size()
	if size != 8*net.IPv4len {
		return ""
	}
	return netip.PrefixFrom(a, ones).Masked().String()
}

// betterAddress guesses what an address that is not one was meant to be.
func betterAddress(s string) string {
	clean := strings.TrimSpace(s)
	if p, err := netip.ParsePrefix(clean); err == nil {
		return p.Addr().String()
	}
	if host, _, err := net.SplitHostPort(clean); err == nil {
		clean = host
	}
	if parts := strings.Split(clean, "."); len(parts) == net.IPv4len {
		for i, part := range parts { // 10.020.0.1: netip refuses zeros that C reads as octal
			parts[i] = strings.TrimLeft(part, "0")
			if parts[i] == "" {
				parts[i] = "0"
			}
		}
		clean = strings.Join(parts, ".")
	}
	if a, err := netip.ParseAddr(clean); err == nil && clean != s {
		return a.String()
	}
	return ""
}

// within16 says whether a range lies in one /16.
func within16(r addressRange) bool {
	a, b := r.first.As4(), r.last.As4()
	return bits.LeadingZeros32(binary.BigEndian.Uint32(a[:])^binary.BigEndian.Uint32(b[:])) >= 16
}
