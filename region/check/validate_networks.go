package check

import (
	"fmt"
	"net/netip"
	"strings"

	"regiond.dev/regiond/region"
)

const (
	provisioningPath = "spec.networks.provisioning"
	managementPath   = "spec.networks.management"
	bmcPath          = "spec.networks.bmc"
	podCIDRPath      = "spec.controlPlane.podCIDR"
	serviceCIDRPath  = "spec.controlPlane.serviceCIDR"
)

// namedPrefix is a network and the field that gives it.
type namedPrefix struct {
	path   string
	prefix netip.Prefix
}

// networks checks the seed host's networks and those of the control plane. r has its defaults.
func (v *validator) networks(written, r *region.Region) {
	n := r.Spec.Networks
	all := []namedPrefix{v.network(provisioningPath, n.Provisioning.Network)}
	v.provisioning = all[0].prefix
	if n.Provisioning.Address == "" && v.index.written(provisioningPath) {
		v.missing(provisioningPath+".address", "DHCP, TFTP and HTTP are served on it", "give the seed host's address in this network")
	}
	if written.Spec.Networks.Management != nil {
		all = append(all, v.network(managementPath, *n.Management))
		if n.Management.Address == "" {
			v.missing(managementPath+".address", "the Kubernetes API is served on it", "give the seed host's address in this network")
		}
	}
	if n.BMC != nil {
		all = append(all, v.network(bmcPath, *n.BMC))
	}
	all = append(all,
		v.clusterCIDR(podCIDRPath, r.Spec.ControlPlane.PodCIDR, 8, 24, "each node gets a /24 of it"),
		// The API server refuses more than 20 bits of Service addresses.
		v.clusterCIDR(serviceCIDRPath, r.Spec.ControlPlane.ServiceCIDR, 12, 28, "the API server takes no larger one"))
	v.overlaps(all)

	v.interfaceName(provisioningPath+".interface", n.Provisioning.Interface)
	for i, s := range n.Provisioning.DNS {
		v.dhcpServer(fmt.Sprintf("%s.dns[%d]", provisioningPath, i), s, 6)
	}
	for i, s := range n.Provisioning.NTP {
		v.dhcpServer(fmt.Sprintf("%s.ntp[%d]", provisioningPath, i), s, 42)
	}
}

// network checks one network of the seed host and notes the seed host's address in it.
func (v *validator) network(path string, n region.Network) namedPrefix {
	prefix, ok := v.cidr(path+".cidr", n.CIDR)
	if ok && (prefix.Bits() < 8 || prefix.Bits() > 30) {
		v.bad(path+".cidr", n.CIDR, "has a prefix length outside of 8 to 30", "a network of servers is usually a /24 to /16")
		ok = false
	}
	if !ok {
		prefix = netip.Prefix{}
	}
	address, addressOK := v.hostAddress(path+".address", n.Address, prefix)
	gateway, gatewayOK := v.hostAddress(path+".gateway", n.Gateway, prefix)
	if addressOK {
		v.seeds.add(path+".address", address)
	}
	if gatewayOK {
		v.static.add(path+".gateway", gateway)
	}
	if addressOK && gatewayOK && address == gateway {
		v.bad(path+".gateway", n.Gateway, "is the seed host's own address "+v.where(path+".address"), "give the router's address, or leave it out")
	}
	return namedPrefix{path + ".cidr", prefix}
}

// cidr parses an IPv4 network in canonical form.
func (v *validator) cidr(path, s string) (netip.Prefix, bool) {
	if s == "" {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		otherwise := "write address/length, e.g. 10.20.0.0/24"
		if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
			otherwise = fmt.Sprintf("add the prefix length, e.g. %s/24", s)
		}
		v.bad(path, s, "is not a network in CIDR notation", meant(betterCIDR(s), otherwise))
	case !p.Addr().Is4():
		v.bad(path, s, "is not an IPv4 network", "regiond's networks are IPv4")
	case p != p.Masked():
		v.bad(path, s, "is an address inside a network, not a network", meant(p.Masked().String(), ""))
		return p.Masked(), true // what was meant is clear enough to check the rest by it
	case reserved(p) != "":
		v.bad(path, s, "overlaps a network that is reserved for "+reserved(p), "choose one of the private networks (RFC 1918)")
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

// clusterCIDR checks a network that lives inside the control plane only.
func (v *validator) clusterCIDR(path, s string, shortest, longest int, why string) namedPrefix {
	p, ok := v.cidr(path, s)
	if ok && (p.Bits() < shortest || p.Bits() > longest) {
		v.bad(path, s, fmt.Sprintf("has a prefix length outside of %d to %d: %s", shortest, longest, why),
			meant(netip.PrefixFrom(p.Addr(), min(max(p.Bits(), shortest), longest)).Masked().String(), ""))
	}
	return namedPrefix{path, p}
}

// overlaps compares all networks pairwise. Management may be the very same network as provisioning.
func (v *validator) overlaps(all []namedPrefix) {
	for i, b := range all {
		for _, a := range all[:i] {
			if !a.prefix.IsValid() || !b.prefix.IsValid() || !a.prefix.Overlaps(b.prefix) {
				continue
			}
			if a.path == provisioningPath+".cidr" && b.path == managementPath+".cidr" && a.prefix == b.prefix {
				continue
			}
			at, other := b, a
			if !v.index.written(at.path) && v.index.written(other.path) {
				at, other = other, at // the default cannot be edited
			}
			v.bad(at.path, at.prefix.String(), v.overlapOf(other), v.overlapAdvice(at, other))
		}
	}
}

func (v *validator) overlapOf(other namedPrefix) string {
	if !v.index.written(other.path) {
		return fmt.Sprintf("overlaps %s, the default of %s", other.prefix, other.path)
	}
	return fmt.Sprintf("overlaps %s of %s", other.prefix, v.where(other.path))
}

func (v *validator) overlapAdvice(at, other namedPrefix) string {
	switch {
	case !v.index.written(other.path):
		return "set " + other.path + " to a network that nothing else uses"
	case at.path == managementPath+".cidr" && strings.HasPrefix(other.path, provisioningPath):
		return fmt.Sprintf("use the same network %s, leave management out, or choose a separate one", other.prefix)
	case at.path == bmcPath+".cidr":
		return "choose a separate network, or leave bmc out if BMCs answer in the other one"
	}
	return "choose a network that nothing else uses"
}

// hostAddress parses an address that a host has in the network. An invalid prefix is not checked.
func (v *validator) hostAddress(path, s string, in netip.Prefix) (netip.Addr, bool) {
	if s == "" {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		v.bad(path, s, "is not an IPv4 address", meant(betterAddress(s), "write it like 10.20.0.2"))
		return a, false
	}
	if !in.IsValid() {
		return a, true
	}
	if !in.Contains(a) {
		v.bad(path, s, "is not in the network "+in.String(), "choose from "+hostRange(in))
		return a, false
	}
	if why := notAHost(a, in); why != "" {
		v.bad(path, s, fmt.Sprintf("is %s of %s", why, in), "choose from "+hostRange(in))
		return a, false
	}
	return a, true
}

// dhcpServer checks a server that is handed out in a DHCP option of addresses.
func (v *validator) dhcpServer(path, s string, option int) {
	if s == "" {
		return
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		v.bad(path, s, "is not an IPv4 address", meant(betterAddress(s), fmt.Sprintf("DHCP option %d carries addresses, not names", option)))
		return
	}
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		v.bad(path, s, "is not an address that servers can reach", "give the address of the server")
		return
	}
	v.static.add(path, a)
}

// addressRange parses a range and says what is wrong with it.
func (v *validator) addressRange(path, s string) (addressRange, bool) {
	if s == "" {
		return addressRange{}, false
	}
	first, last, err := region.ParseRange(s)
	if err != nil {
		v.bad(path, s, err.Error(), meant(betterRange(s), "write first-last, e.g. 10.20.0.100-10.20.0.199"))
		return addressRange{}, false
	}
	return addressRange{first, last}, true
}

// dhcpRange checks that leased addresses are nobody else's. It comes last, when all static
// addresses are known.
func (v *validator) dhcpRange(d region.DHCP) {
	path := provisioningPath + ".dhcp.range"
	r, ok := v.addressRange(path, d.Range)
	if !ok || !v.provisioning.IsValid() {
		return
	}
	p := v.provisioning
	if !p.Contains(r.first) || !p.Contains(r.last) {
		v.bad(path, d.Range, fmt.Sprintf("is outside of the provisioning network %s", p), "choose from "+hostRange(p))
		return
	}
	for _, a := range []netip.Addr{r.first, r.last} {
		if why := notAHost(a, p); why != "" {
			v.bad(path, d.Range, fmt.Sprintf("contains %s, %s", a, why), "choose from "+hostRange(p))
		}
	}
	v.free(path, d.Range, r, v.seeds.list, "the seed host's address")
	v.free(path, d.Range, r, v.static.list, "the address")
}

// free reports addresses in use inside a range.
func (v *validator) free(path, value string, r addressRange, used []namedAddress, noun string) {
	for _, u := range used {
		if r.contains(u.address) {
			v.bad(path, value, fmt.Sprintf("contains %s %s of %s", noun, u.address, v.where(u.path)), "end the range before it or begin it after it")
		}
	}
}
