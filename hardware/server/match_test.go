package server_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

const (
	uuidA = "6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8"
	uuidB = "b3f08d52-9c17-4e6a-a0d4-1f7e25c96b38"
	uuidC = "d41e77b0-53a8-4c02-96fb-8e2b7c0a1d59"
	ami   = "03000200-0400-0500-0006-000700080009"
	macA1 = "0c:c4:7a:00:00:01"
	macB1 = "0c:c4:7a:00:00:02"
)

// known is a server whose BMC says who it is. With MAC addresses, its machine has reported too.
func known(name, address, uuid, serial string, macs ...string) region.Server {
	s := region.Server{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: address}},
		Status: region.ServerStatus{BMC: &region.BMCStatus{SystemUUID: uuid, SerialNumber: serial}}}
	if len(macs) > 0 {
		s.Status.Inventory = &inventory.Inventory{System: inventory.SystemInfo{UUID: uuid, SerialNumber: serial}}
		for _, m := range macs {
			s.Status.Inventory.NICs = append(s.Status.Inventory.NICs, inventory.NIC{MACAddress: m})
		}
	}
	return s
}

func TestMatch(t *testing.T) {
	foreign := known("own-word", "", uuidC, "SN-O", "0c:c4:7a:00:00:09")
	foreign.Status.BMC.SystemUUID = "0d3b6f29-8a51-4d7c-b2e4-6c90f1a83b75" // the BMC's own GUID, not the machine's
	servers := []region.Server{
		known("a", "", uuidA, "SN-A"), known("b", "", uuidB, "SN-B"),
		known("c", "", "", "SN-C"), known("d", "", ami, "To be filled by O.E.M."), known("e", "", "", "SN-X"), known("f", "", "", "SN-X"),
		known("blade1", "", "9a4f27e1-6b0c-4d83-8e15-73d0b92f64ac", "CHASSIS"), known("twin1", "", ami, "Default string", macA1), known("twin2", "", ami, "Default string", macB1),
		{ObjectMeta: metav1.ObjectMeta{Name: "g"}}, foreign,
	}
	declared1, declared2 := known("declared1", "", "e7b3940c-1d5f-4a28-8c60-f2917ad3be05", "SN-D"), known("declared2", "", "e7b3940c-1d5f-4a28-8c60-f2917ad3be05", "SN-D")
	declared1.Spec.MACAddresses, declared2.Spec.MACAddresses = []string{"0C:C4:7A:00:00:11"}, []string{"0c:c4:7a:00:00:12"}
	named := known("named", "", ami, "None")
	named.Spec.MACAddresses = []string{"0c:c4:7a:00:00:13"}
	servers = append(servers, declared1, declared2, named)
	const unknown = "77c41f0a-2b8d-4956-bd3e-09f86a5e1c24"
	for _, tt := range []struct{ name, uuid, serial, mac, want string }{
		{"by UUID", uuidA, "", "", "a"},
		{"case", strings.ToUpper(uuidA), "", "", "a"},
		{"SMBIOS byte order", "3b2a1c6f-5e4d-604f-8192-a3b4c5d6e7f8", "", "", "a"},
		{"IPMI byte order", "f8e7d6c5-b4a3-9281-604f-5e4d3b2a1c6f", "", "", "a"},
		{"by serial", "", "sn-c ", "", "c"},
		{"UUID that the BMC does not tell", unknown, "SN-C", "", "c"},
		{"serial of one, UUID of another", uuidA, "SN-B", "", ""},
		{"another blade with the chassis' serial", unknown, "CHASSIS", "", ""},
		{"neither", unknown, "SN-?", "", ""},
		{"nothing given", "", "", "", ""},
		{"placeholders match nobody", ami, "To Be Filled By O.E.M.", "", ""},
		{"malformed UUID", "zz", "", "", ""},
		{"two", "", "SN-X", "", "e f"},
		{"twins are told apart by their NICs", ami, "Default string", macA1, "twin1"},
		{"one of two with one identity, by its declared NIC", "e7b3940c-1d5f-4a28-8c60-f2917ad3be05", "SN-D", "0c:c4:7a:00:00:12", "declared2"},
		{"a third with that identity", "e7b3940c-1d5f-4a28-8c60-f2917ad3be05", "SN-D", "0c:c4:7a:00:00:14", ""},
		{"no identity but a declared NIC", ami, "Default string", "0c:c4:7a:00:00:13", "named"},
		{"the machine's own word goes before its BMC's", uuidC, "SN-O", "0c:c4:7a:00:00:09", "own-word"},
	} {
		var names []string
		for _, s := range server.Match(servers, fingerprint.New(tt.uuid, tt.serial, tt.mac)) {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: matched %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestDuplicateServers(t *testing.T) {
	declared := known("b", "10.0.0.2", uuidA, "S4711")
	declared.Spec.MACAddresses = []string{macB1}
	for _, tt := range []struct {
		name string
		a, b region.Server
		same bool
	}{
		{"twins, the second with a declared NIC", known("a", "10.0.0.1", uuidA, "S4711", macA1), declared, false},
		{"one BMC", known("a", "10.0.0.1", "", ""), known("b", "::ffff:10.0.0.1", "", ""), true},
		{"one UUID in two byte orders", known("a", "10.0.0.1", uuidA, ""), known("b", "10.0.0.2", "f8e7d6c5-b4a3-9281-604f-5e4d3b2a1c6f", ""), true},
		{"one serial number", known("a", "10.0.0.1", "", "S4711"), known("b", "10.0.0.2", "", "s4711"), true},
		{"one NIC", known("a", "10.0.0.1", "", "", macA1), known("b", "10.0.0.2", "", "", macA1), true},
		{"twins with placeholders", known("a", "10.0.0.1", ami, "0123456789"), known("b", "10.0.0.2", ami, "0123456789"), false},
		{"twins with NICs of their own", known("a", "10.0.0.1", uuidA, "S4711", macA1), known("b", "10.0.0.2", uuidA, "S4711", macB1), false},
		{"blades of one chassis", known("a", "10.0.0.1", uuidA, "CHASSIS"), known("b", "10.0.0.2", uuidB, "CHASSIS"), false},
		{"nothing known", known("a", "", "", ""), known("b", "", "", ""), false},
	} {
		got := server.Duplicates([]region.Server{tt.a, tt.b}, &tt.a)
		if same := len(got) == 1 && got[0] == "b"; same != tt.same || len(got) > 1 {
			t.Errorf("%s: duplicates of a are %q, want b: %v", tt.name, got, tt.same)
		}
		// The controller looks only at servers that share a key of the index.
		shared := false
		for _, k := range server.IdentityKeys(&tt.a) {
			for _, other := range server.IdentityKeys(&tt.b) {
				shared = shared || k == other
			}
		}
		if tt.same && !shared {
			t.Errorf("%s: no index key in common: %q, %q", tt.name, server.IdentityKeys(&tt.a), server.IdentityKeys(&tt.b))
		}
	}
}
