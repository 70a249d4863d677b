package server

import (
	"fmt"
	"strings"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// DefaultInterface is the name of the interface that netbooted, where a profile has no network.
const DefaultInterface = "lan0"

// ResolveNetwork binds the profile's interfaces to the hardware of one machine by MAC address. The
// kernel's names are not used: they change with kernels.
func ResolveNetwork(n *region.HostNetwork, nics []inventory.NIC) (identity.Network, *Refusal) {
	if n == nil {
		n = &region.HostNetwork{Interfaces: []region.Interface{{
			Name: DefaultInterface, Match: region.InterfaceMatch{Boot: true}, AddressConfig: region.AddressConfig{DHCP: true},
		}}}
	}
	var out identity.Network
	taken, named := map[string]string{}, map[string]bool{}
	for _, i := range n.Interfaces {
		nic, refused := matchNIC(i, nics)
		if refused != nil {
			return identity.Network{}, refused
		}
		mac := strings.ToLower(nic.MACAddress)
		if other, twice := taken[mac]; twice {
			return identity.Network{}, refuse(region.ReasonNetworkNotResolved, "interfaces %q and %q of the profile's network both match NIC %s; each must match another one", other, i.Name, mac)
		}
		taken[mac] = i.Name
		named[i.Name] = true
		out.Interfaces = append(out.Interfaces, identity.Interface{Name: i.Name, MACAddress: mac, Addresses: addresses(i.AddressConfig)})
	}
	for _, b := range n.Bonds {
		for _, member := range b.Interfaces {
			if !named[member] {
				return identity.Network{}, refuse(region.ReasonNetworkNotResolved, "bond %q of the profile's network has the member %q, which is not among its interfaces; add it there", b.Name, member)
			}
		}
		mode, hash := b.Mode, b.XmitHashPolicy
		if mode == "" {
			mode = "802.3ad"
		}
		if hash == "" && mode == "802.3ad" {
			hash = "layer3+4"
		}
		out.Bonds = append(out.Bonds, identity.Bond{Name: b.Name, Interfaces: b.Interfaces, Mode: mode,
			LACPRate: b.LACPRate, XmitHashPolicy: hash, Addresses: addresses(b.AddressConfig)})
	}
	return out, nil
}

func matchNIC(i region.Interface, nics []inventory.NIC) (*inventory.NIC, *Refusal) {
	var fit []*inventory.NIC
	var seen []string
	for k := range nics {
		n := &nics[k]
		note := fmt.Sprintf("%s %s", n.Name, n.MACAddress)
		if n.PCIAddress != "" {
			note += " pci " + n.PCIAddress
		}
		if n.Boot {
			note += " (netbooted)"
		}
		seen = append(seen, note)
		m := i.Match
		if m.Boot && !n.Boot ||
			m.PermanentMACAddress != "" && !strings.EqualFold(m.PermanentMACAddress, n.MACAddress) ||
			m.PCIAddress != "" && !strings.EqualFold(m.PCIAddress, n.PCIAddress) {
			continue
		}
		fit = append(fit, n)
	}
	if len(fit) != 1 {
		return nil, refuse(region.ReasonNetworkNotResolved, "interface %q of the profile's network matches %d NICs, it must match exactly one; change its match. Candidates: %s",
			i.Name, len(fit), bounded.List(seen, "; "))
	}
	return fit[0], nil
}

func addresses(a region.AddressConfig) identity.Addresses {
	return identity.Addresses{DHCP: a.DHCP, Addresses: a.Addresses, Gateway: a.Gateway, MTU: a.MTU}
}
