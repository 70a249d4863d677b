// Package fingerprint is the one rule by which two descriptions of a machine are compared: what its
// BMC says of it, what its firmware says when it netboots, and what its installer reports.
//
// A key is a value that identifies a machine: system UUID, serial number, MAC address. What firmware
// reports in place of one (placeholders, vendors' defaults) is never a key.
package fingerprint

import (
	"net"
	"slices"
	"strings"
)

// Keys are what is known of one machine, each in a form that can be compared. A value that
// identifies nothing is left out.
type Keys struct {
	UUID   string
	Serial string
	// MACs of the machine's own NICs, sorted.
	MACs []string
}

// New makes the keys of a machine from values as they were reported.
func New(uuid, serial string, macs ...string) Keys {
	k := Keys{UUID: UUID(uuid), Serial: Serial(serial)}
	for _, m := range macs {
		if key := MAC(m); key != "" {
			k.MACs = append(k.MACs, key)
		}
	}
	slices.Sort(k.MACs)
	k.MACs = slices.Compact(k.MACs)
	return k
}

// Or completes the keys by those of another description of the same machine.
func (k Keys) Or(other Keys) Keys {
	if k.UUID == "" {
		k.UUID = other.UUID
	}
	if k.Serial == "" {
		k.Serial = other.Serial
	}
	if len(k.MACs) == 0 {
		k.MACs = other.MACs
	}
	return k
}

// None says that nothing is known by which the machine could be recognised.
func (k Keys) None() bool { return k.UUID == "" && k.Serial == "" && len(k.MACs) == 0 }

// Relation of two descriptions.
type Relation int

// Relations. Only Same lets anything happen to a machine.
const (
	// Unknown: the two have no key in common.
	Unknown Relation = iota
	// Same: at least one key agrees and none contradicts.
	Same
	// Different: two valid UUIDs or two valid serial numbers differ, whatever else agrees. Blades, for
	// one, may all show their chassis' serial number.
	Different
)

func (r Relation) String() string {
	return [...]string{"unknown", "same", "different"}[r]
}

// Compare says whether two descriptions are of one machine. MAC addresses can only agree: NICs are
// added and replaced, and a network boot shows one of several.
func (k Keys) Compare(other Keys) Relation {
	agree := k.SharesMAC(other)
	for _, pair := range [][2]string{{k.UUID, other.UUID}, {k.Serial, other.Serial}} {
		switch {
		case pair[0] == "" || pair[1] == "":
		case pair[0] != pair[1]:
			return Different
		default:
			agree = true
		}
	}
	if agree {
		return Same
	}
	return Unknown
}

// Certain says that UUID and serial number are both known and both agree: the evidence that it takes
// to change what is recorded of a machine.
func (k Keys) Certain(other Keys) bool {
	return k.UUID != "" && k.UUID == other.UUID && k.Serial != "" && k.Serial == other.Serial
}

// SharesMAC says whether a NIC belongs to both.
func (k Keys) SharesMAC(other Keys) bool {
	return slices.ContainsFunc(k.MACs, func(m string) bool { return slices.Contains(other.MACs, m) })
}

// Twins says that the NICs of both are known and none is in both: two machines, though they may show
// one UUID and one serial number.
func (k Keys) Twins(other Keys) bool {
	return len(k.MACs) > 0 && len(other.MACs) > 0 && !k.SharesMAC(other)
}

// MAC brings an Ethernet address into a form that can be compared, or returns "" for one that
// identifies nothing: all zeros, a group address (IEEE 802, lowest bit of the first byte), or the 20
// bytes of InfiniBand.
func MAC(s string) string {
	m, err := net.ParseMAC(strings.TrimSpace(s))
	if err != nil || len(m) != 6 || m[0]&1 != 0 || !slices.ContainsFunc(m, func(b byte) bool { return b != 0 }) {
		return ""
	}
	return m.String()
}
