package server

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"regiond.dev/regiond/region"
)

// Values that firmware reports in place of an identity, in lower case.
var (
	notASerial = []string{"", "0", "none", "n/a", "unknown", "not specified", "not available", "default string",
		"system serial number", "to be filled by o.e.m.", "to be filled by oem", "0123456789", "123456789", "1234567890"}
	notAUUID = []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"03000200-0400-0500-0006-000700080009"} // AMI's default
)

// UUIDKey brings a system UUID into a form that can be compared, or returns "" for one that
// identifies nothing.
//
// SMBIOS (DSP0134 section 7.2.1) stores the first three fields little-endian since version 2.6,
// older firmware and many BMCs (Get System GUID, IPMI v2.0 section 22.14) give them big-endian. A
// machine and its BMC may so disagree; the lesser of both readings stands for the two.
func UUIDKey(s string) string {
	u, err := uuid.Parse(strings.TrimSpace(s))
	if err != nil {
		return ""
	}
	swapped := u
	slices.Reverse(swapped[0:4])
	slices.Reverse(swapped[4:6])
	slices.Reverse(swapped[6:8])
	a, b := u.String(), swapped.String()
	if slices.Contains(notAUUID, a) || slices.Contains(notAUUID, b) {
		return ""
	}
	return min(a, b)
}

// SerialKey brings a serial number into a form that can be compared, or returns "" for one that
// identifies nothing.
func SerialKey(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if slices.Contains(notASerial, s) {
		return ""
	}
	return s
}

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

// IdentityIndex is the name of the field index over IdentityKeys.
const IdentityIndex = "identity"

// IdentityKeys are the values by which two Server objects can be seen to be one machine.
func IdentityKeys(s *region.Server) []string {
	var keys []string
	if ap, ok := Endpoint(s.Spec.BMC); ok {
		keys = append(keys, "bmc:"+ap.String())
	}
	if b := s.Status.BMC; b != nil {
		if k := UUIDKey(b.SystemUUID); k != "" {
			keys = append(keys, "uuid:"+k)
		} else if k := SerialKey(b.SerialNumber); k != "" {
			// A serial number counts only where there is no UUID: blades may show their chassis' serial.
			keys = append(keys, "serial:"+k)
		}
	}
	return keys
}

// Duplicates are the names of those servers that are the same machine as s.
func Duplicates(servers []region.Server, s *region.Server) []string {
	keys := IdentityKeys(s)
	var found []string
	for i := range servers {
		if servers[i].UID != s.UID && slices.ContainsFunc(IdentityKeys(&servers[i]), func(k string) bool { return slices.Contains(keys, k) }) {
			found = append(found, servers[i].Name)
		}
	}
	slices.Sort(found)
	return found
}

// Match returns the servers that a machine with this SMBIOS UUID and serial number is. More than
// one is a fault that an operator must mend; none is a machine that regiond has no business with.
func Match(servers []region.Server, systemUUID, serial string) []*region.Server {
	by := func(key string, of func(*region.BMCStatus) string) []*region.Server {
		var found []*region.Server
		for i := range servers {
			if b := servers[i].Status.BMC; key != "" && b != nil && of(b) == key {
				found = append(found, &servers[i])
			}
		}
		return found
	}
	if found := by(UUIDKey(systemUUID), func(b *region.BMCStatus) string { return UUIDKey(b.SystemUUID) }); len(found) > 0 {
		return found
	}
	return by(SerialKey(serial), func(b *region.BMCStatus) string { return SerialKey(b.SerialNumber) })
}
