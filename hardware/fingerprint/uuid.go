package fingerprint

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// UUID brings a system UUID into a form that can be compared, or returns "" for one that identifies
// nothing.
//
// SMBIOS (DSP0134 section 7.2.1) stores the first three fields little-endian since version 2.6; older
// firmware stores them big-endian; BMCs send either of the two, or all 16 bytes in reverse (Get System
// GUID, IPMI v2.0 sections 20.8 and 22.14), and nothing in the answer tells which. So a machine and its
// BMC may show one UUID in different orders. The least of all readings stands for them all.
func UUID(s string) string {
	u, err := uuid.Parse(strings.TrimSpace(s))
	if err != nil {
		return ""
	}
	key := canonical(u)
	if placeholder(key) {
		return ""
	}
	return uuid.UUID(key).String()
}

// SameUUID says whether two UUIDs are of one machine, whatever byte order each was read in.
func SameUUID(a, b string) bool {
	key := UUID(a)
	return key != "" && key == UUID(b)
}

// readings are the orders in which 16 bytes may have been meant: reversed or not, with the three
// fields at either end swapped or not. Each of these is its own inverse, so any reading of any other
// is among them.
func readings(u [16]byte) [8][16]byte {
	var all [8][16]byte
	for i := range all {
		v := u
		if i&1 != 0 {
			slices.Reverse(v[:])
		}
		if i&2 != 0 {
			slices.Reverse(v[0:4])
			slices.Reverse(v[4:6])
			slices.Reverse(v[6:8])
		}
		if i&4 != 0 {
			slices.Reverse(v[12:16])
			slices.Reverse(v[10:12])
			slices.Reverse(v[8:10])
		}
		all[i] = v
	}
	return all
}

func canonical(u [16]byte) [16]byte {
	all := readings(u)
	return slices.MinFunc(all[:], func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
}

// defaults are UUIDs that many boards share and that no rule recognises. Seen by FreeBSD (rc.d/hostid),
// GLPI (its table of blacklists), CapaSystems ("Non-Unique UUID"), and Dell's owners.
var defaults = func() map[[16]byte]bool {
	m := map[[16]byte]bool{}
	for _, s := range []string{
		"03000200-0400-0500-0006-000700080009", // AMI, Gigabyte; as 00020003-0004-… before SMBIOS 2.6
		"07090201-0103-0301-0807-060504030201",
		"12345678-1234-5678-90ab-cddeefaabbcc", // Insyde
		"4c4c4544-0000-2010-8020-80c04f202020", // Dell without a service tag
		"6ab5b300-538d-1014-9fb5-b0684d007b53",
		"890e2d14-cacd-45d1-ae66-bc80e8bfeb0f",
		"8e275844-178f-44a8-aceb-a7d7e5178c63",
		"dc698397-fa54-4cf2-82c8-b1b5307a6a7f",
	} {
		m[canonical(uuid.MustParse(s))] = true
	}
	return m
}()

// placeholder recognises UUIDs that nobody drew: vendors' defaults, patterns, and text such as
// sixteen times X. No rule takes a random UUID for one with a probability above 10^-9, nor ten zeros
// and a MAC address, which is Supermicro's real UUID.
func placeholder(u [16]byte) bool {
	if defaults[u] {
		return true
	}
	all := readings(u)
	return slices.ContainsFunc(all[:], func(v [16]byte) bool {
		return monotonous(v) || repeats(v) || counts(v) || countsDigits(v) || perGroup(v) || isText(v)
	})
}

// monotonous: nearly all bytes are equal, or all behind the first field are 00 or FF.
func monotonous(v [16]byte) bool {
	for _, b := range v[:3] {
		if bytes.Count(v[:], []byte{b}) >= 14 {
			return true
		}
	}
	tail := v[4]
	return (tail == 0 || tail == 0xff) && bytes.Count(v[4:], []byte{tail}) == 12
}

// repeats: a pattern of up to eight bytes, over and over.
func repeats(v [16]byte) bool {
	for _, n := range []int{1, 2, 4, 8} {
		if bytes.Equal(v[n:], v[:16-n]) {
			return true
		}
	}
	return false
}

// counts: the bytes go up or down in equal steps, as 00 01 02 or 00 11 22.
func counts(v [16]byte) bool {
	var by [256]int
	for i := 1; i < len(v); i++ {
		by[v[i]-v[i-1]]++
	}
	return by[1] >= 8 || by[255] >= 8 || slices.Max(by[:]) >= 12
}

// countsDigits: most hexadecimal digits follow on the one before, as 0123456789abcdef or 1234567890.
func countsDigits(v [16]byte) bool {
	text := hex.EncodeToString(v[:])
	steps := 0
	for i := 1; i < len(text); i++ {
		if follows(text[i-1], text[i]) || follows(text[i], text[i-1]) {
			steps++
		}
	}
	return steps >= 20
}

// perGroup: each of the five groups is one digit repeated, as 11111111-2222-3333-4444-555555555555.
func perGroup(v [16]byte) bool {
	for group := range strings.SplitSeq(uuid.UUID(v).String(), "-") {
		if !uniform(group) {
			return false
		}
	}
	return true
}

// isText: the bytes are text that is a placeholder. Text alone is not wrong: HPE's UUIDs are product
// and serial number in ASCII.
func isText(v [16]byte) bool {
	text := bytes.TrimRight(v[:], "\x00")
	if len(text) < 8 || slices.ContainsFunc(text, func(b byte) bool { return b < ' ' || b > '~' }) {
		return false
	}
	return Serial(string(text)) == ""
}
