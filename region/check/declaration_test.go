package check_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/region/check"
)

// declaration returns what is said of the base with OpenStack, which Load takes.
func declaration(t *testing.T, changes ...string) []string {
	t.Helper()
	doc, err := check.Load([]byte(withOpenStack(t, changes...)), "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range doc.CheckDeclaration() {
		said = append(said, p.Field+": "+p.Message)
	}
	return said
}

// What goes to a cluster's address has passwords in it: only the seed host's own addresses are
// taken.
func TestClustersAreServedBySeedHost(t *testing.T) {
	const uplink = "interface: data0"
	for address, want := range map[string]string{
		"10.20.0.2":   "",
		"10.20.0.3":   "",
		"8.8.8.8":     `"8.8.8.8" is neither in the provisioning nor in the management network`,
		"127.0.0.1":   "is neither in the provisioning",
		"10.42.0.7":   "is neither in the provisioning", // podCIDR
		"10.20.0.255": "is the broadcast address",
		"10.20.0.150": "is leased to servers",
		"10.20.0.1":   "is already given at spec.networks.provisioning.gateway",
		"fe80::1":     "is neither in the provisioning",
	} {
		got := declaration(t, "address: 10.20.0.2", `address: "`+address+`"`, uplink, "interface: bond0", "profiles: [compute]", "profiles: [other]")
		if want == "" && len(got) == 0 || len(got) == 1 && want != "" && strings.Contains(got[0], want) {
			continue
		}
		t.Errorf("%s: %q, want %s", address, got, want)
	}
}

// A physical network is on an interface that the hosts have, and that is the bridge's alone.
func TestUplinksAreThere(t *testing.T) {
	for name, want := range map[string]string{
		"data0": `"data0" is not an interface or a bond of the profile "compute" (spec.hardware.profiles[0].network (line 49))`,
		"lan0":  `"lan0" is a member of the bond bond0 in the profile "compute"`,
		"bond0": `"bond0" has addresses in the profile "compute"`,
	} {
		if got := declaration(t, "interface: data0", "interface: "+name); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	if got := declaration(t, "profiles: [compute]", "profiles: [other]"); got != nil {
		t.Errorf("a profile whose interfaces are not known: %q", got)
	}
}

// Bridges of Neutron's own, and interfaces that would be more than a name to a shell, are refused
// when they are declared. A region that runs with them since before they were refused starts: Load
// takes the file.
func TestNamesOfPhysicalNetworks(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"name: physnet1", "name: int"}:                      `"int" is reserved: br-int is the name of Neutron's own bridge`,
		{"name: physnet1", "name: tun"}:                      `"tun" is reserved: br-tun is the name of Neutron's own bridge`,
		{"interface: data0", `interface: "eth0; reboot"`}:    `"eth0; reboot" is not an interface name`,
		{"interface: data0", `interface: "$(id)"`}:           `is not an interface name`,
		{"interface: data0", `interface: "-eth0"`}:           `is not an interface name`,
		{"interface: data0", `interface: lo`}:                `is kept by the kernel for itself`,
		{"interface: data0", `interface: "abcdefghijklmno"`}: "",
	} {
		got := declaration(t, change[0], change[1], "profiles: [compute]", "profiles: [other]")
		if want == "" && len(got) == 0 || len(got) == 1 && want != "" && strings.Contains(got[0], want) {
			continue
		}
		t.Errorf("%s: %q, want %s", change[1], got, want)
	}
}

// Interfaces whose names the kernel takes and configuration may not: as for physical networks.
func TestNamesOfInterfaces(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"      dns:", "      interface: \"eth0;1\"\n      dns:"}: `spec.networks.provisioning.interface: "eth0;1" is not an interface name`,
		{"- name: bond0", `- name: "bond0=1"`}:                    `spec.hardware.profiles[0].network.bonds[0].name: "bond0=1" is not an interface name`,
		{"- name: lan0", `- name: "-lan0"`}:                       `spec.hardware.profiles[0].network.interfaces[0].name: "-lan0" is not an interface name`,
		{"- name: bond0", "- name: bond0.100"}:                    "",
	} {
		text := replaceOnce(t, base, change[0], change[1])
		text = strings.Replace(text, "interfaces: [lan0,", `interfaces: ["-lan0",`, strings.Count(change[1], "-lan0"))
		doc, err := check.Load([]byte(text), "region.yaml")
		if err != nil {
			t.Fatal(err)
		}
		got := doc.CheckDeclaration()
		if want == "" && len(got) == 0 || len(got) == 1 && want != "" && strings.Contains(got[0].String(), want) {
			continue
		}
		t.Errorf("%s: %q, want %s", change[1], got, want)
	}
}
