package check

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/nethelpers"

	"regiond.dev/regiond/region"
)

// hostNetwork checks the network of an installed server.
func (v *validator) hostNetwork(field string, n region.HostNetwork) {
	h := &hostNetworkValidator{
		validator: v,
		links:     map[string]string{}, members: map[string]string{}, matches: map[string]string{},
		gateways: map[bool]string{}, addresses: map[netip.Addr]string{},
	}
	for i, b := range n.Bonds {
		for j, member := range b.Interfaces {
			h.member(fmt.Sprintf("%s.bonds[%d].interfaces[%d]", field, i, j), member, n.Interfaces)
		}
	}
	for i, n := range n.Interfaces {
		at := fmt.Sprintf("%s.interfaces[%d]", field, i)
		h.name(at+".name", n.Name)
		h.match(at+".match", n.Match)
		h.addressing(at, n.AddressConfig)
		if bond, found := h.members[n.Name]; found {
			h.bare(at, n, bond)
		}
	}
	for i, b := range n.Bonds {
		at := fmt.Sprintf("%s.bonds[%d]", field, i)
		h.name(at+".name", b.Name)
		h.bond(at, b)
		h.addressing(at, b.AddressConfig)
	}
}

// hostNetworkValidator knows what was seen of one server's network so far, each by path.
type hostNetworkValidator struct {
	*validator
	links     map[string]string // by name
	members   map[string]string // by interface name: where a bond takes it
	matches   map[string]string // by what is matched
	gateways  map[bool]string   // by "is IPv4"
	addresses map[netip.Addr]string
}

// name checks the name of a link and that no other has it.
func (h *hostNetworkValidator) name(path, name string) {
	if !h.interfaceName(path, name) {
		return
	}
	if first, found := h.links[name]; found {
		h.bad(path, name, "is already the name of "+h.where(first), "give each interface and bond its own name")
		return
	}
	h.links[name] = path
}

// interfaceName checks what Linux takes as the name of a network interface (dev_valid_name in
// net/core/dev.c), without the names that sysctl and the kernel keep for themselves.
func (v *validator) interfaceName(path, name string) bool {
	if name == "" {
		return false
	}
	if message, advice := notInterfaceName(name); message != "" {
		v.bad(path, name, message, advice)
		return false
	}
	return true
}

const nameCharacters = "use letters, digits, '-', '_' and '.'"

// notInterfaceName says why Linux does not take a name, and what to do.
func notInterfaceName(name string) (message, advice string) {
	const longest = 15 // IFNAMSIZ less the terminating zero
	switch {
	case len(name) > longest:
		return fmt.Sprintf("has %d bytes, an interface name at most %d", len(name), longest), "write a shorter name"
	case name == "." || name == ".." || name == "lo" || name == "all" || name == "default":
		return "is kept by the kernel for itself", "choose another name, e.g. lan0"
	case strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' || c == ':' || c == '%' }):
		return "is not an interface name", nameCharacters
	}
	return "", ""
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

// match checks the selection of one interface. That exactly one field is given is in the schema.
func (h *hostNetworkValidator) match(path string, m region.InterfaceMatch) {
	if m.Boot {
		h.once(path+".boot", "true", "boot")
	} else if h.index.written(path+".boot") && m == (region.InterfaceMatch{}) {
		h.bad(path+".boot", "false", "selects nothing", "write boot: true, permanentMACAddress or pciAddress")
	}
	if s := m.PermanentMACAddress; s != "" {
		hw, err := net.ParseMAC(s)
		switch {
		case err != nil || len(hw) != 6:
			h.bad(path+".permanentMACAddress", s, "is not a MAC address", "write six pairs of hexadecimal digits, e.g. 3c:ec:ef:12:34:56")
		case hw.String() != s:
			h.bad(path+".permanentMACAddress", s, "is not in lower-case colon notation", meant(hw.String(), ""))
		case hw[0]&1 != 0: // IEEE 802: the I/G bit
			h.bad(path+".permanentMACAddress", s, "is a group address, which no interface has", "give the address of the interface")
		case hw.String() == "00:00:00:00:00:00":
			h.bad(path+".permanentMACAddress", s, "is not the address of an interface", "give the address of the interface")
		default:
			h.once(path+".permanentMACAddress", s, "mac "+s)
		}
	}
	if s := m.PCIAddress; s != "" {
		if !pciAddress.MatchString(s) {
			h.bad(path+".pciAddress", s, "is not a PCI address", meant(betterPCI(s), "write domain:bus:device.function as lspci -D shows it, e.g. 0000:3b:00.0"))
		} else {
			h.once(path+".pciAddress", s, "pci "+s)
		}
	}
}

func betterPCI(s string) string {
	lower := strings.ToLower(strings.TrimSpace(s))
	for _, candidate := range []string{lower, "0000:" + lower} {
		if pciAddress.MatchString(candidate) {
			return candidate
		}
	}
	return ""
}

// once reports hardware that two interfaces match.
func (h *hostNetworkValidator) once(path, value, key string) {
	if first, found := h.matches[key]; found {
		h.bad(path, value, "is already matched by "+h.where(first), "each interface has its own hardware")
		return
	}
	h.matches[key] = path
}

// member checks one member of a bond.
func (h *hostNetworkValidator) member(path, name string, interfaces []region.Interface) {
	if name == "" {
		return
	}
	if first, found := h.members[name]; found {
		h.bad(path, name, "is already a member at "+h.where(first), "an interface is in one bond, once")
		return
	}
	h.members[name] = path
	names := make([]string, 0, len(interfaces))
	for _, i := range interfaces {
		if i.Name == name || i.Name == "" {
			return // found, or unclear because an interface has no name
		}
		names = append(names, i.Name)
	}
	h.bad(path, name, "is not the name of any interface of this network", orElse(didYouMean(name, names, "interface"), "add it to interfaces"))
}

// bare reports addressing on a member of a bond: the kernel would never use it.
func (h *hostNetworkValidator) bare(path string, i region.Interface, bond string) {
	const advice = "write it at the bond"
	why := "is set on a member of a bond, " + h.where(bond)
	if i.DHCP {
		h.bad(path+".dhcp", "true", why, advice)
	}
	if len(i.Addresses) > 0 {
		h.bad(path+".addresses", strings.Join(i.Addresses, ", "), why, advice)
	}
	if i.Gateway != "" {
		h.bad(path+".gateway", i.Gateway, why, advice)
	}
	if i.MTU != 0 {
		h.bad(path+".mtu", fmt.Sprint(i.MTU), why+", which sets the MTU of its members", advice)
	}
}

// bond checks which parameters of the bonding driver go together
// (Documentation/networking/bonding.rst). Which words there are is in the schema.
func (h *hostNetworkValidator) bond(path string, b region.Bond) {
	mode, err := nethelpers.BondModeByName(b.Mode)
	if err != nil {
		return // said by the schema
	}
	if b.LACPRate != "" && mode != nethelpers.BondMode8023AD {
		h.bad(path+".lacpRate", b.LACPRate, "has no meaning in mode "+b.Mode, "remove it, or use mode "+nethelpers.BondMode8023AD.String())
	}
	switch mode {
	case nethelpers.BondMode8023AD, nethelpers.BondModeXOR, nethelpers.BondModeTLB:
	default:
		if b.XmitHashPolicy != "" {
			h.bad(path+".xmitHashPolicy", b.XmitHashPolicy, "has no meaning in mode "+b.Mode, "remove it, or use mode 802.3ad, balance-xor or balance-tlb")
		}
	}
}

// addressing checks the addresses of a link. The bounds of the MTU are in the schema.
func (h *hostNetworkValidator) addressing(path string, c region.AddressConfig) {
	var prefixes []netip.Prefix
	for i, s := range c.Addresses {
		at := fmt.Sprintf("%s.addresses[%d]", path, i)
		if p, ok := h.interfaceAddress(at, s); ok {
			prefixes = append(prefixes, p)
		}
	}
	if c.Gateway == "" {
		return
	}
	at := path + ".gateway"
	gateway, err := netip.ParseAddr(c.Gateway)
	if err != nil || gateway.Zone() != "" {
		h.bad(at, c.Gateway, "is not an IP address", meant(betterAddress(c.Gateway), "write it like 10.20.0.1"))
		return
	}
	if len(c.Addresses) == 0 {
		h.bad(at, c.Gateway, "is given without addresses", "add addresses, or remove it: with DHCP the gateway comes from the lease")
		return
	}
	if first, found := h.gateways[gateway.Is4()]; found {
		h.bad(at, c.Gateway, "is a second default gateway, beside "+h.where(first), "keep one")
	}
	h.gateways[gateway.Is4()] = at
	h.static.add(at, gateway)
	if len(prefixes) < len(c.Addresses) {
		return // an address is wrong: the gateway may be in its network
	}
	networks := make([]string, len(prefixes))
	for i, p := range prefixes {
		if p.Addr() == gateway {
			h.bad(at, c.Gateway, "is the server's own address", "give the router's address")
			return
		}
		if p.Contains(gateway) {
			return
		}
		networks[i] = p.Masked().String()
	}
	h.bad(at, c.Gateway, "is not in the network of any address of this link", "choose from "+strings.Join(networks, ", "))
}

// interfaceAddress checks one address with its prefix length.
func (h *hostNetworkValidator) interfaceAddress(path, s string) (netip.Prefix, bool) {
	if s == "" {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		guess := ""
		if a, err := netip.ParseAddr(s); err == nil && h.provisioning.IsValid() && h.provisioning.Contains(a) {
			guess = netip.PrefixFrom(a, h.provisioning.Bits()).String()
		}
		h.bad(path, s, "is not an address in CIDR notation", meant(guess, "write address/length, e.g. 10.20.0.11/24"))
		return p, false
	}
	a := p.Addr()
	if why := notAHost(a, p); why != "" {
		h.bad(path, s, "is "+why+" of "+p.Masked().String(), "choose from "+hostRange(p.Masked()))
		return p, false
	}
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		h.bad(path, s, "is not the address of a host on a network", "choose another one")
		return p, false
	}
	if first, found := h.addresses[a]; found {
		h.bad(path, s, "is already given at "+h.where(first), "remove one of them")
		return p, false
	}
	h.addresses[a] = path
	if seed, found := h.seeds.seen[a]; found {
		h.bad(path, s, "is the seed host's own address "+h.where(seed), "choose another one")
		return p, false
	}
	h.static.add(path, a)
	return p, true
}
