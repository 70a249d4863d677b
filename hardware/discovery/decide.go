package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// target is a BMC address to be searched, and the credentials for it.
type target struct {
	address     netip.AddrPort
	credentials string
}

// targets lists the addresses to search: all of the ranges but those of BMCs that have a Server, or
// are listed in region.yaml and will have one. Of overlapping ranges the first counts.
func targets(reg *region.Region, servers []region.Server) ([]target, error) {
	known := map[netip.AddrPort]bool{}
	for i := range servers {
		if ap, ok := server.Endpoint(servers[i].Spec.BMC); ok {
			known[ap] = true
		}
	}
	for _, st := range reg.Spec.Hardware.Servers {
		if ap, ok := server.Endpoint(st.BMC); ok {
			known[ap] = true
		}
	}
	var list []target
	for _, r := range reg.Spec.Hardware.Discovery {
		first, last, err := region.ParseRange(r.Range)
		if err != nil {
			return nil, fmt.Errorf("discovery range %q %w", r.Range, err)
		}
		// Validation keeps ranges within a /16; the bound holds for objects that were edited too.
		const most = 1 << 16
		for a, n := first, 0; a.IsValid() && !last.Less(a); a, n = a.Next(), n+1 {
			if n == most {
				return nil, fmt.Errorf("discovery range %q holds more than %d addresses; split it", r.Range, most)
			}
			ap, ok := server.Endpoint(region.BMCEndpoint{Address: a.String(), Port: r.Port})
			if ok && !known[ap] {
				known[ap] = true
				list = append(list, target{ap, r.Credentials})
			}
		}
	}
	return list, nil
}

// found is what a BMC that answered said of itself; identity is zero when it refused the credentials.
type found struct {
	target
	identity region.BMCStatus
}

// Verdict on a BMC that was found.
type verdict int

const (
	create  verdict = iota // a new server
	move                   // a discovered server whose BMC has another address now
	refused                // a known server: not for discovery to change
)

// judge decides what a found BMC is. answers says whether a BMC answers at an address at present.
func judge(f found, servers []region.Server, answers func(netip.AddrPort) bool) (verdict, *region.Server, string) {
	if same := matching(servers, server.KeysOfBMC(&f.identity)); len(same) > 0 {
		s := same[0]
		old, ok := server.Endpoint(s.Spec.BMC)
		switch {
		case len(same) > 1:
			return refused, s, "it is more than one known server"
		case s.Labels[server.SourceLabel] != server.SourceDiscovery:
			return refused, s, "it is a known server that was declared with another BMC address"
		case ok && answers(old):
			return refused, s, "it is a known server whose BMC still answers at " + old.String() + ": two BMCs with one identity, or one with two addresses"
		}
		return move, s, ""
	}
	name := Name(f.identity, f.address)
	for i := range servers {
		if servers[i].Name == name {
			return refused, &servers[i], "a server of that name exists and is another machine"
		}
	}
	return create, nil, ""
}

// matching are the servers whose BMC describes the same machine.
func matching(servers []region.Server, keys fingerprint.Keys) []*region.Server {
	var found []*region.Server
	for i := range servers {
		if server.BMCKeys(&servers[i]).Compare(keys) == fingerprint.Same {
			found = append(found, &servers[i])
		}
	}
	return found
}

// Name of a discovered server: from the system UUID, else the serial number, so that it stays when the
// BMC's address changes; else, when a BMC does not say who it is, from the address.
func Name(b region.BMCStatus, address netip.AddrPort) string {
	key := ""
	if k := fingerprint.UUID(b.SystemUUID); k != "" {
		key = "uuid:" + k
	} else if k := fingerprint.Serial(b.SerialNumber); k != "" {
		key = "serial:" + k
	} else {
		name := "server-" + strings.NewReplacer(".", "-", ":", "-").Replace(address.Addr().String())
		if address.Port() != region.DefaultBMCPort {
			name += fmt.Sprintf("-%d", address.Port())
		}
		return name
	}
	// A hash, since vendors' UUIDs share their beginning or their end. 48 bits keep ten thousand
	// servers apart; a clash is refused, not overwritten.
	sum := sha256.Sum256([]byte(key))
	return "server-" + hex.EncodeToString(sum[:6])
}
