package server

import (
	"fmt"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// ExpectedNetwork is the network that a host gets by its profile, as far as it is known without an
// inventory: MAC addresses that only an inventory tells are <mac:INTERFACE>.
func ExpectedNetwork(p *region.Profile) (identity.Network, error) {
	network, refused := ResolveNetwork(p.Network, expectedNICs(p.Network))
	if refused != nil {
		return identity.Network{}, fmt.Errorf("network of profile %s: %s", p.Name, refused.Message)
	}
	return network, nil
}

// expectedNICs are those that the profile's interfaces match.
func expectedNICs(n *region.HostNetwork) []inventory.NIC {
	if n == nil {
		return []inventory.NIC{{MACAddress: "<mac:" + DefaultInterface + ">", Boot: true}}
	}
	nics := make([]inventory.NIC, len(n.Interfaces))
	for i, one := range n.Interfaces {
		nics[i] = inventory.NIC{MACAddress: one.Match.PermanentMACAddress, PCIAddress: one.Match.PCIAddress, Boot: one.Match.Boot}
		if nics[i].MACAddress == "" {
			nics[i].MACAddress = "<mac:" + one.Name + ">"
		}
	}
	return nics
}
