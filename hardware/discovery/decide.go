package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

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

// silentSearches is how many searches in a row must find nothing at a server's BMC address before
// another address is taken for its new one. One or two are missed by a BMC that restarts or is updated.
const silentSearches = 3

// verdict on a BMC that was found.
type verdict int

const (
	create   verdict = iota // a new server
	move                    // a discovered server whose BMC has another address now
	conflict                // known servers: nothing is changed, and a condition of theirs says why
)

// finding is a verdict, the known servers that it is about, and the condition BMCAddress that says so.
type finding struct {
	verdict         verdict
	servers         []*region.Server
	reason, message string
}

// evidence is what is known of the BMC address that is recorded for a server.
type evidence struct {
	// answers says that a BMC answered there just now.
	answers bool
	// silent searches in a row, this one included.
	silent int
	// claimants are how many BMCs at other addresses say in this search that they are the server's.
	claimants int
}

// evaluate decides what a found BMC is. examine asks the BMC at the address that is recorded for a server.
func evaluate(f found, servers []region.Server, examine func(*region.Server) evidence) finding {
	keys := server.KeysOfBMC(&f.identity)
	same := matching(servers, keys)
	if len(same) == 0 {
		name := Name(f.identity, f.address)
		for i := range servers {
			if servers[i].Name == name {
				return finding{conflict, []*region.Server{&servers[i]}, region.ReasonNameTaken,
					fmt.Sprintf("the BMC at %s (%s) belongs to another machine that would be discovered by this server's name; rename it: list it in hardware.servers of region.yaml", f.address, told(f.identity))}
			}
		}
		return finding{verdict: create}
	}
	s := same[0]
	old := s.Spec.BMC.Address
	if ap, ok := server.Endpoint(s.Spec.BMC); ok {
		old = ap.String()
	}
	claim := fmt.Sprintf("the BMC at %s says that it is this server (%s)", f.address, told(f.identity))
	patch := fmt.Sprintf(`regiond kubectl patch server %s --type=merge -p '{"spec":{"bmc":{"address":"%s","port":%d}}}'`, s.Name, f.address.Addr(), f.address.Port())
	switch e := examine(s); {
	case len(same) > 1:
		return finding{conflict, same, region.ReasonIdentityConflict, claim + ", and so does more than one Server; delete all but one of them"}
	case e.claimants > 1:
		return finding{conflict, same, region.ReasonIdentityConflict, fmt.Sprintf("%s, and so do %d more BMCs: machines with one identity; list them in hardware.servers of region.yaml, with their macAddresses", claim, e.claimants-1)}
	case e.answers || meta.IsStatusConditionTrue(s.Status.Conditions, region.ConditionBMCReachable):
		return finding{conflict, same, region.ReasonIdentityConflict, claim + ", while its own BMC at " + old +
			" answers too: two machines with one identity, or one BMC with two addresses; a second machine is listed in hardware.servers of region.yaml, with its macAddresses"}
	case s.Labels[server.SourceLabel] != server.SourceDiscovery:
		return finding{conflict, same, region.ReasonDeclaredElsewhere, claim + ", which is declared with the address " + old + "; correct that in region.yaml"}
	case !server.BMCKeys(s).Certain(keys):
		return finding{conflict, same, region.ReasonIdentityUncertain, claim + ", but system UUID and serial number do not both agree; if it is, say so: " + patch}
	case e.silent < silentSearches:
		return finding{conflict, same, region.ReasonMovePending, fmt.Sprintf("%s, and nothing answered at its address %s in %d of the %d searches after which it counts as moved; nothing to do",
			claim, old, e.silent, silentSearches)}
	}
	return finding{move, same, region.ReasonBMCMoved, fmt.Sprintf("the BMC moved from %s to %s: system UUID and serial number agree, and nothing answered at the old address in %d searches", old, f.address, silentSearches)}
}

// told is what a BMC said of its identity, for people.
func told(b region.BMCStatus) string {
	return fmt.Sprintf("system UUID %q, serial number %q", b.SystemUUID, b.SerialNumber)
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
