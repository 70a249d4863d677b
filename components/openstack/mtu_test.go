package openstack_test

import (
	"io/fs"
	"strings"
	"testing"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// TestMTUs: the MTU that Neutron assumes for a physical network or a tunnel is compared with the
// hosts' links.
func TestMTUs(t *testing.T) {
	const network = `
        network:
          interfaces:
            - {name: mgmt0, match: {boot: true}, dhcp: true MGMT}
            - {name: data0, match: {pciAddress: "0000:3b:00.0"} DATA}
            - {name: data1, match: {pciAddress: "0000:3b:00.1"}}
          bonds:
            - {name: bond0, interfaces: [data1], mode: active-backup BOND}
`
	for name, tc := range map[string]struct {
		mgmt, data, bond, uplink, values string
		want                             string
		warning                          bool
	}{
		"nothing said":              {uplink: "data0"},
		"larger than needed":        {data: ", mtu: 9000", uplink: "data0"},
		"as large as needed":        {data: ", mtu: 9000", uplink: "data0", values: "{neutron: {global_physnet_mtu: 9000}}"},
		"interface":                 {data: ", mtu: 1400", uplink: "data0", want: "interfaces[1].mtu: 1400 is less than the 1500 bytes that cluster general assumes for physical network physnet1 on data0"},
		"interface by default":      {uplink: "data0", values: "{neutron: {global_physnet_mtu: 9000}}", want: "interfaces[1].name: data0 has no mtu", warning: true},
		"bond":                      {bond: ", mtu: 8000", uplink: "bond0", values: "{neutron: {global_physnet_mtu: 9000}}", want: "bonds[0].mtu: 8000 is less"},
		"as an option":              {data: ", mtu: 1500", uplink: "data0", values: "{neutron: {conf: {DEFAULT: {global_physnet_mtu: 9000}}}}", want: "interfaces[1].mtu: 1500"},
		"tunnels":                   {mgmt: ", mtu: 1400", data: ", mtu: 9000", uplink: "data0", values: "{neutron: {vxlan: {enabled: true}}}", want: "interfaces[0].mtu: 1400 is less than the 1500 bytes that cluster general assumes for VXLAN tunnels on mgmt0"},
		"no tunnels":                {mgmt: ", mtu: 1400", uplink: "data0"},
		"tunnels on another link":   {mgmt: ", mtu: 1400", uplink: "data0", values: `{neutron: {vxlan: {enabled: true, local_address: "10.79.0.1"}}}`},
		"one problem for each link": {data: ", mtu: 1400", uplink: "data0", values: "{neutron: {global_physnet_mtu: 9000}}", want: "interfaces[1].mtu: 1400 is less than the 9000"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(checkedRegion, "rootDisk: {minSize: 4G}\n", "rootDisk: {minSize: 4G}"+
				strings.NewReplacer(" MGMT", tc.mgmt, " DATA", tc.data, " BOND", tc.bond).Replace(network), 1) +
				"        physicalNetworks: [{name: physnet1, interface: " + tc.uplink + "}]\n"
			if tc.values != "" {
				text += "        values: " + tc.values + "\n"
			}
			doc, err := check.Load([]byte(text), "region.yaml")
			if err != nil {
				t.Fatal(err)
			}
			problems, err := openstack.Check(doc, func(string) ([]region.Patch, error) { return nil, fs.ErrNotExist })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range problems {
				if strings.Contains(p.String(), "mtu") {
					got = append(got, p.String())
					if p.Warning != tc.warning {
						t.Errorf("warning %v, want %v: %s", p.Warning, tc.warning, p)
					}
				}
			}
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("got %q, want nothing", got)
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
				t.Errorf("got %q, want one with %q", got, tc.want)
			}
		})
	}
}
