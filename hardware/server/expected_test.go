package server_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// Without an inventory a profile's network resolves; MAC addresses that only an inventory has are
// named for their interface.
func TestExpectedNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		network *region.HostNetwork
		want    string
	}{
		"no network": {nil, server.DefaultInterface + " <mac:" + server.DefaultInterface + ">"},
		"interfaces": {&region.HostNetwork{Interfaces: []region.Interface{
			{Name: "boot0", Match: region.InterfaceMatch{Boot: true}},
			{Name: "lan0", Match: region.InterfaceMatch{PCIAddress: "0000:c1:00.0"}},
			{Name: "lan1", Match: region.InterfaceMatch{PermanentMACAddress: "3C:EC:EF:12:34:56"}},
		}}, "boot0 <mac:boot0>, lan0 <mac:lan0>, lan1 3c:ec:ef:12:34:56"},
	} {
		n, err := server.ExpectedNetwork(&region.Profile{Name: "compute", Network: tt.network})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, i := range n.Interfaces {
			got = append(got, i.Name+" "+i.MACAddress)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: got %s, want %s", name, strings.Join(got, ", "), tt.want)
		}
	}
	twice := &region.HostNetwork{Interfaces: []region.Interface{{Name: "a", Match: region.InterfaceMatch{Boot: true}}, {Name: "b", Match: region.InterfaceMatch{Boot: true}}}}
	if _, err := server.ExpectedNetwork(&region.Profile{Name: "compute", Network: twice}); err == nil || !strings.Contains(err.Error(), "network of profile compute: ") {
		t.Errorf("two interfaces that match the same: got %v, want a refusal that names the profile", err)
	}
}
