package server

import (
	"net/netip"
	"slices"

	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/region"
)

// Endpoint of a BMC as netip.AddrPort; ok is false when the address is none.
func Endpoint(b region.BMCEndpoint) (ap netip.AddrPort, ok bool) {
	a, err := netip.ParseAddr(b.Address)
	port := b.Port
	if port == 0 {
		port = region.DefaultBMCPort
	}
	if err != nil || port < 1 || port > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port)), true
}

// BMCAddress is the address and port of a BMC as records name it, empty when it has none that is valid.
func BMCAddress(b region.BMCEndpoint) string {
	ap, ok := Endpoint(b)
	if !ok {
		return ""
	}
	return ap.String()
}

// IdentityIndex is the name of the field index over IdentityKeys.
const IdentityIndex = "identity"

// IdentityKeys are the values under which a Server is found in the index. Two servers that share one
// may be one machine; whether they are, Duplicates says.
func IdentityKeys(s *region.Server) []string {
	var keys []string
	if ap, ok := Endpoint(s.Spec.BMC); ok {
		keys = append(keys, "bmc:"+ap.String())
	}
	k := BMCKeys(s)
	if k.UUID != "" {
		keys = append(keys, "uuid:"+k.UUID)
	}
	if k.Serial != "" {
		keys = append(keys, "serial:"+k.Serial)
	}
	for _, mac := range k.MACs {
		keys = append(keys, "mac:"+mac)
	}
	return keys
}

// BMCKeys are what a server's BMC says of the machine, completed by what the machine itself reported.
func BMCKeys(s *region.Server) fingerprint.Keys {
	return KeysOfBMC(s.Status.BMC).Or(inventoryKeys(s))
}

// MachineKeys are what the machine itself reported, completed by what its BMC says: the two may differ,
// and a machine is recognised by its own word.
func MachineKeys(s *region.Server) fingerprint.Keys {
	return inventoryKeys(s).Or(KeysOfBMC(s.Status.BMC))
}

// KeysOfBMC are the keys in what a BMC said; b may be nil.
func KeysOfBMC(b *region.BMCStatus) fingerprint.Keys {
	if b == nil {
		return fingerprint.Keys{}
	}
	return fingerprint.New(b.SystemUUID, b.SerialNumber)
}

// inventoryKeys are what the machine itself reported, and what the operator says of its NICs.
func inventoryKeys(s *region.Server) fingerprint.Keys {
	inv := s.Status.Inventory
	if inv == nil {
		return fingerprint.New("", "", s.Spec.MACAddresses...)
	}
	macs := slices.Clone(s.Spec.MACAddresses)
	for _, n := range inv.NICs {
		macs = append(macs, n.MACAddress)
	}
	return fingerprint.New(inv.System.UUID, inv.System.SerialNumber, macs...)
}

// Duplicates are the names of those servers that are the same machine as s: they have its BMC, or all
// that is known of both agrees and nothing contradicts.
func Duplicates(servers []region.Server, s *region.Server) []string {
	address, hasAddress := Endpoint(s.Spec.BMC)
	keys := BMCKeys(s)
	var found []string
	for i := range servers {
		other := &servers[i]
		if other.UID == s.UID {
			continue
		}
		ap, ok := Endpoint(other.Spec.BMC)
		k := BMCKeys(other)
		if ok && hasAddress && ap == address || k.Compare(keys) == fingerprint.Same && !k.Twins(keys) {
			found = append(found, other.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Contradicting returns the servers that share a key with a machine but are not it, since another key differs.
func Contradicting(servers []region.Server, machine fingerprint.Keys) []*region.Server {
	var found []*region.Server
	for i := range servers {
		k := MachineKeys(&servers[i])
		shared := k.UUID != "" && k.UUID == machine.UUID || k.Serial != "" && k.Serial == machine.Serial || k.SharesMAC(machine)
		if shared && k.Compare(machine) == fingerprint.Different {
			found = append(found, &servers[i])
		}
	}
	return found
}

// Match returns the servers that a machine with these keys is. Of several that its UUID or serial
// number fits, those that have its NIC are meant. More than one is a fault that an operator must
// correct; none is a machine that regiond has no business with.
func Match(servers []region.Server, machine fingerprint.Keys) []*region.Server {
	var found, byNIC []*region.Server
	for i := range servers {
		k, declared := MachineKeys(&servers[i]), fingerprint.New("", "", servers[i].Spec.MACAddresses...)
		if k.Compare(machine) != fingerprint.Same || declared.Twins(machine) {
			continue
		}
		found = append(found, &servers[i])
		if k.SharesMAC(machine) {
			byNIC = append(byNIC, &servers[i])
		}
	}
	if len(byNIC) > 0 {
		return byNIC
	}
	return found
}
