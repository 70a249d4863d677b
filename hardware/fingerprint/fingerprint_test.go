package fingerprint_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"regiond.dev/regiond/hardware/fingerprint"
)

// What firmware of real boards reports in place of a serial number: GLPI's table of blacklists,
// ChromeOS Flex's client_id, and reports to netbox-agent #296, xCAT #5428, CloudLAPS #58.
func TestPlaceholderSerials(t *testing.T) {
	for _, s := range []string{
		"", " ", "0", "1", "00000000", "0000000000", "0000000001", "1111111", "1111111111", "xxxxxxxxxxx", "XXXXXXXX", "NNNNNNN", "X",
		"..........", "-", "*", ".. .", "012345", "0123456789", "0123456789AB", "0123456789ABCDEF", "01234567", "123", "12345", "123456", "1234567",
		"12345678", "123456789", "1234567890", "123456789000", "12345678901234567", "9876543210", "ABCDEF",
		"N/A", "NA", "n.a.", "(null string)", "NULL", "INVALID", "SYS-1234567890", "SYS-9876543210", "SN-12345", "SN-1234567890", "MB-1234567890",
		"NB-1234567890", "EeePC-1234567890", "SSN12345678901234567", "BSN12345678901234567", "CSN12345678901234567", "EVAL", "IATPASS",
		"none", "None", "To Be Filled By O.E.M.", "To be filled by O.E.M", "to be filled by oem", "TO BE FILLED BY O.E.M. BY MORE STRING", "Tulip Computers",
		"Serial Number xxxxxx", "SN-123456fvgv3i0b8o5n6n7k", "Unknow", "Unknown", "System Serial Number", "SystemSerialNumb",
		"system_serial_number", "System Serial#", "serial#", "$SerialNumber$", "Base Board Serial Number", "Chassis Serial Number",
		"empty", "Not Specified", "Not Available", "Not Applicable", "Not", "Not Set", "OEM_Serial", "OEM", "Default string", "Default_string", "TBD",
		"Filled By O.E.M.", "S/N: none", "FIELD", "Standard", "Unspecified",
	} {
		if key := fingerprint.Serial(s); key != "" {
			t.Errorf("Serial(%q) = %q, want none", s, key)
		}
	}
}

func TestRealSerials(t *testing.T) {
	for s, want := range map[string]string{
		" DB3KYV1 ": "db3kyv1", "HGFXPQZ": "hgfxpqz", "CZJ1234ABC": "czj1234abc", "SGH112X0A1": "sgh112x0a1", "S123456X7890123": "s123456x7890123",
		"USE422KNT5": "use422knt5", "06DXLMA": "06dxlma", "SN12": "sn12", "VMware-56 4d 1a": "vmware-56 4d 1a", "1003": "1003", "LAB0001": "lab0001",
		"2102311XYZ": "2102311xyz", "NOTE7731": "note7731", "MB55A1204": "mb55a1204", "Q2341-8": "q2341-8",
	} {
		if got := fingerprint.Serial(s); got != want {
			t.Errorf("Serial(%q) = %q, want %q", s, got, want)
		}
	}
}

// FreeBSD's rc.d/hostid, GLPI's table of blacklists, CapaSystems' 'Non-Unique UUID', dmidecode reports.
var placeholderUUIDs = []string{
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "fefefefe-fefe-fefe-fefe-fefefefefefe",
	"01010101-0101-0101-0101-010101010101", "11111111-1111-1111-1111-111111111111", "11111111-2222-3333-4444-555555555555",
	"58585858-5858-5858-5858-585858585858", "03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
	"07090201-0103-0301-0807-060504030201", "56f49712-ffff-ffff-ffff-ffffffffffff", "dc698397-fa54-4cf2-82c8-b1b5307a6a7f",
	"8e275844-178f-44a8-aceb-a7d7e5178c63", "890e2d14-cacd-45d1-ae66-bc80e8bfeb0f", "6ab5b300-538d-1014-9fb5-b0684d007b53",
	"4c4c4544-0000-2010-8020-80c04f202020", "12345678-1234-5678-90ab-cddeefaabbcc", "12345678-1234-1234-1234-123456789abc",
	"12345678-1234-5678-1234-567812345678", "00010203-0405-0607-0809-0a0b0c0d0e0f", "01020304-0506-0708-090a-0b0c0d0e0f10",
	"01234567-8910-1112-1314-151617181920", "00112233-4455-6677-8899-aabbccddeeff", "deadbeef-dead-beef-dead-beefdeadbeef",
	"88888888-8888-8888-8888-878888888888", "30303030-3030-3030-3030-303030303030", "31323334-3536-3738-3930-313233343536",
	"00000000-0000-0000-0000-000000000001", "01234567-89ab-cdef-0123-456789abcdef", "a123456789abcdefa123456789abcdef",
}

func TestPlaceholderUUIDs(t *testing.T) {
	for _, s := range placeholderUUIDs {
		u := uuid.MustParse(s)
		for name, v := range orders(u) {
			if key := fingerprint.UUID(v.String()); key != "" {
				t.Errorf("UUID(%s) = %q, want none (%s, order %s)", v, key, s, name)
			}
		}
	}
	for _, s := range []string{"", "2", "Not Settable", "zz"} {
		if key := fingerprint.UUID(s); key != "" {
			t.Errorf("UUID(%q) = %q, want none", s, key)
		}
	}
}

func TestRealUUIDs(t *testing.T) {
	for _, s := range []string{
		"00000000-0000-0000-0000-0cc47a3b5c1e", // Supermicro: zeros and a MAC address
		"00000000-0000-0000-0000-002590000005",
		"30373237-3132-4d32-3237-343230323144", // HPE: product and serial number in ASCII
		"4c4c4544-0042-3510-8052-b3c04f4b4e32", // Dell: the service tag
		"03d502e0-045e-0512-0a06-980700080009", // Gigabyte: the default with a MAC address in it
		"6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8",
	} {
		if fingerprint.UUID(s) == "" {
			t.Errorf("UUID(%s) is none, want a key", s)
		}
	}
}

// orders are the ways in which firmware and BMCs write the same 16 bytes.
func orders(u uuid.UUID) map[string]uuid.UUID {
	smbios := func(u uuid.UUID) uuid.UUID {
		slices.Reverse(u[0:4])
		slices.Reverse(u[4:6])
		slices.Reverse(u[6:8])
		return u
	}
	ipmi := func(u uuid.UUID) uuid.UUID { slices.Reverse(u[:]); return u }
	return map[string]uuid.UUID{"RFC 4122": u, "SMBIOS": smbios(u), "IPMI": ipmi(u),
		"IPMI read as SMBIOS": smbios(ipmi(u)), "SMBIOS read as IPMI": ipmi(smbios(u)), "IPMI of SMBIOS read as SMBIOS": smbios(ipmi(smbios(u)))}
}

func TestEveryByteOrderIsTheSameMachine(t *testing.T) {
	seed := bytes.NewReader(bytes.Repeat([]byte{0x9d, 0x3e, 0x71, 0xc4, 0x05, 0xb8, 0x62}, 4000))
	for range 1000 {
		u, err := uuid.NewRandomFromReader(seed)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range orders(u) {
			if !fingerprint.SameUUID(u.String(), strings.ToUpper(v.String())) {
				t.Errorf("%s in order %s (%s) is another machine, want the same", u, name, v)
			}
		}
	}
	for _, pair := range [][2]string{
		{"6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8", "6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f9"},
		{"", ""}, {"6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8", "nonsense"}, {placeholderUUIDs[0], placeholderUUIDs[0]},
	} {
		if fingerprint.SameUUID(pair[0], pair[1]) {
			t.Errorf("SameUUID(%q, %q) = true, want false", pair[0], pair[1])
		}
	}
}

const (
	uuidA = "6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8"
	uuidB = "c2d90b1e-77a4-4a53-b1f6-52e80d6c3a94"
	ami   = "03000200-0400-0500-0006-000700080009"
	macA  = "0c:c4:7a:3b:5c:1e"
	macB  = "0c:c4:7a:3b:5c:20"
)

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b fingerprint.Keys
		want fingerprint.Relation
	}{
		{"both agree", fingerprint.New(uuidA, "S4711"), fingerprint.New(strings.ToUpper(uuidA), " s4711"), fingerprint.Same},
		{"UUID alone agrees", fingerprint.New(uuidA, ""), fingerprint.New(uuidA, "S4711"), fingerprint.Same},
		{"serial alone agrees", fingerprint.New(ami, "S4711"), fingerprint.New(uuidA, "S4711"), fingerprint.Same},
		{"blades with their chassis' serial", fingerprint.New(uuidA, "CHASSIS7"), fingerprint.New(uuidB, "CHASSIS7"), fingerprint.Different},
		{"one UUID, two serials", fingerprint.New(uuidA, "S4711"), fingerprint.New(uuidA, "S4712"), fingerprint.Different},
		{"a MAC address does not outweigh it", fingerprint.New(uuidA, "", macA), fingerprint.New(uuidB, "", macA), fingerprint.Different},
		{"nothing in common", fingerprint.New(uuidA, ""), fingerprint.New("", "S4711"), fingerprint.Unknown},
		{"equal placeholders say nothing", fingerprint.New(ami, "Default string"), fingerprint.New(ami, "Default string"), fingerprint.Unknown},
		{"known by its MAC address", fingerprint.New(ami, "0123456789", macA, macB), fingerprint.New(ami, "0123456789", strings.ToUpper(macB)), fingerprint.Same},
		{"a replaced NIC contradicts nothing", fingerprint.New(uuidA, "S4711", macA), fingerprint.New(uuidA, "S4711", macB), fingerprint.Same},
		{"other MAC addresses", fingerprint.New("", "", macA), fingerprint.New("", "", macB), fingerprint.Unknown},
		{"no MAC addresses", fingerprint.New("", "", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"), fingerprint.New("", "", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"), fingerprint.Unknown},
	} {
		if got, back := tt.a.Compare(tt.b), tt.b.Compare(tt.a); got != tt.want || back != tt.want {
			t.Errorf("%s: %s, and %s the other way round, want %s", tt.name, got, back, tt.want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(uuidA, "S4711", macA)
	f.Add(ami, "To be filled by O.E.M.", "")
	f.Fuzz(func(t *testing.T, u, serial, mac string) {
		k := fingerprint.New(u, serial, mac)
		if got := k.Compare(k); got == fingerprint.Different || (got == fingerprint.Unknown) != k.None() {
			t.Errorf("%+v compared with itself is %s", k, got)
		}
		// A key is its own key: what is compared again gives the same.
		if again := fingerprint.New(k.UUID, k.Serial, k.MACs...); again.UUID != k.UUID || again.Serial != k.Serial || !slices.Equal(again.MACs, k.MACs) {
			t.Errorf("keys of %+v are %+v", k, again)
		}
	})
}
