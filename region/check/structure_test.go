package check_test

import (
	"fmt"
	"strings"
	"testing"

	"regiond.dev/regiond/region/check"
)

func TestStructure(t *testing.T) {
	runBadInput(t, []badInput{
		{name: "unknown field", changes: []string{"        range: 10.20", "        rnge: 10.20"}, want: []string{
			`12:9: spec.networks.provisioning.dhcp.rnge: unknown field; did you mean "range"?`,
		}},
		{name: "unknown field in a list", changes: []string{"        profile: compute", "        profil: compute"}, want: []string{
			`32:9: spec.hardware.servers[0].profil: unknown field; did you mean "profile"?`,
		}},
		{name: "unknown field without a near name", changes: []string{"      address: 10.30.0.2\n", "      address: 10.30.0.2\n      vlan: 7\n"}, want: []string{
			`18:7: spec.networks.bmc.vlan: unknown field; the fields here are address, cidr, gateway`,
		}},
		{name: "unknown field that belongs elsewhere", changes: []string{"spec:\n", "spec:\n  discovery: []\n"}, want: []string{
			`6:3: spec.discovery: unknown field; did you mean spec.hardware.discovery?`,
		}},
		{name: "misspelled match is not an empty match", changes: []string{"manufacturer: Dell*\n          minMemory: 64Gi", "vendor: Dell"}, want: []string{
			`40:11: spec.hardware.profiles[0].match.vendor: unknown field; the fields here are manufacturer, minCPUs, minMemory, name, product, serialNumbers`,
		}},
		{name: "wrong type: string for a list", changes: []string{"dns: [10.20.0.1]", "dns: 10.20.0.1"}, want: []string{
			`14:12: spec.networks.provisioning.dns: "10.20.0.1" is a string, must be a list; write [10.20.0.1]`,
		}},
		{name: "wrong type: list for a mapping", changes: []string{"  controlPlane:\n    podCIDR: 10.42.0.0/16", "  controlPlane: [10.42.0.0/16]"}, want: []string{
			`18:17: spec.controlPlane: is a list, must be a mapping; its fields are dataDir, podCIDR, serviceCIDR`,
		}},
		{name: "wrong type: mapping for a list", changes: []string{"interfaces: [lan0, lan1]", "interfaces: {lan0: lan1}"}, want: []string{
			`58:27: spec.hardware.profiles[0].network.bonds[0].interfaces: is a mapping, must be a list; begin each item with '- '`,
		}},
		{name: "wrong type: integer for a string", changes: []string{"- name: other", "- name: 0123"}, want: []string{
			`63:15: spec.hardware.profiles[1].name: "0123" is an integer, must be a string; put it in quotes: "0123"`,
		}},
		{name: "wrong type: string for an integer", changes: []string{"address: 10.30.0.61", "address: 10.30.0.61\n          port: \"6230\""}, want: []string{
			`36:17: spec.hardware.servers[1].bmc.port: "6230" is a string, must be an integer; remove the quotes`,
		}},
		{name: "wrong type: yes for a boolean", changes: []string{"wwn: naa.5002538e40a1b2c3", "overwrite: yes"}, want: []string{
			`45:22: spec.hardware.profiles[0].rootDisk.overwrite: "yes" is a string, must be true or false; write true or false, without quotes`,
		}},
		{name: "wrong type: mapping for a string", changes: []string{"name: north-1", "name: {a: b}"}, want: []string{
			`4:9: metadata.name: is a mapping, must be a string`,
		}},
		{name: "wrong type: the whole", changes: []string{base, "- apiVersion: regiond.dev/v1alpha1\n"}, want: []string{
			`1:1: is a list, must be a mapping; its fields are apiVersion, kind, metadata, spec`,
		}},
		{name: "octal port", changes: []string{"address: 10.30.0.61", "address: 10.30.0.61\n          port: 0623"}, want: []string{
			`36:17: spec.hardware.servers[1].bmc.port: "0623" is not a plain decimal number; write it without leading zeros, base or separators`,
		}},
		{name: "port out of bounds", changes: []string{"address: 10.30.0.61", "address: 10.30.0.61\n          port: 65536"}, want: []string{
			`36:17: spec.hardware.servers[1].bmc.port: 65536 is out of bounds, must be 1 to 65535`,
		}},
		{name: "huge integer", changes: []string{"minMemory: 64Gi", "minCPUs: 99999999999999999999"}, want: []string{
			`41:20: spec.hardware.profiles[0].match.minCPUs: 99999999999999999999 is out of bounds, must be 1 to 2147483647`,
		}},
		{name: "duplicate key", changes: []string{"      gateway: 10.20.0.1\n      dhcp:", "      gateway: 10.20.0.1\n      gateway: 10.20.0.3\n      dhcp:"}, want: []string{
			`11:7: spec.networks.provisioning.gateway: is given twice, first on line 10; remove one of them`,
		}},
		{name: "missing required field", changes: []string{"      cidr: 10.30.0.0/24\n", ""}, want: []string{
			`15:5: spec.networks.bmc.cidr: required field is missing; add cidr: CIDR of the network, e.g. 10.20.0.0/24`,
		}},
		{name: "missing required field in a list", changes: []string{"        file: /etc/regiond/rack-1.yaml\n", ""}, want: []string{
			`22:9: spec.hardware.credentials[0].file: required field is missing; add file: File on the seed host with the keys "username" and "password" in YAML, readable by root only. It is imported into an encrypted Secret when the control plane starts, and again when it changes`,
		}},
		{name: "required field without a value", changes: []string{"cidr: 10.30.0.0/24", "cidr:"}, want: []string{
			`15:5: spec.networks.bmc.cidr: required field is missing; add cidr: CIDR of the network, e.g. 10.20.0.0/24`,
		}},
		{name: "empty item", changes: []string{"- iommu=pt", "-"}, want: []string{
			`47:12: spec.hardware.profiles[0].kernelArguments[0]: is empty; remove the item or write a string`,
		}},
		{name: "empty string", changes: []string{"file: /etc/regiond/rack-1.yaml", `file: ""`}, want: []string{
			`23:15: spec.hardware.credentials[0].file: "" is empty; write a value`,
		}},
		{name: "unsupported choice", changes: []string{"node: trixie", "node: trixi"}, want: []string{
			`65:11: spec.images.node: "trixi" is not supported; did you mean "trixie"?`,
		}},
		{name: "unsupported choice without a near one", changes: []string{"mode: 802.3ad", "mode: lacp"}, want: []string{
			`59:21: spec.hardware.profiles[0].network.bonds[0].mode: "lacp" is not supported; there are the choices "balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"`,
		}},
		{name: "unsupported version", changes: []string{"regiond.dev/v1alpha1", "regiond.dev/v1alpha2"}, want: []string{
			`1:13: apiVersion: "regiond.dev/v1alpha2" is not supported; did you mean "regiond.dev/v1alpha1"?`,
		}},
		{name: "misspelled kind", changes: []string{"kind: Region", "kind: region"}, want: []string{
			`2:7: kind: "region" is not supported; did you mean "Region"?`,
		}},
		{name: "another kind", changes: []string{"kind: Region", "kind: Deployment"}, want: []string{
			`2:7: kind: "Deployment" is not a region; a region file has apiVersion regiond.dev/v1alpha1 and kind Region`,
		}},
		{name: "no kind", changes: []string{"kind: Region\n", ""}, want: []string{
			`1:1: kind: required field is missing; add kind: Region`,
		}},
		{name: "status is not declared", changes: []string{"spec:\n", "status: {}\nspec:\n"}, want: []string{
			`5:1: status: unknown field; the fields here are apiVersion, kind, metadata, spec`,
		}},
		{name: "merge key", changes: []string{"  controlPlane:\n", "  controlPlane:\n    <<: {dataDir: /srv/regiond}\n"}, want: []string{
			`19:5: spec.controlPlane: has a key that is not a plain string; merge keys (<<) and compound keys are not part of a region; write the fields out`,
		}},
		{name: "compound key", changes: []string{"  controlPlane:\n", "  controlPlane:\n    ? [a, b]\n    : c\n"}, want: []string{
			`19:7: spec.controlPlane: has a key that is not a plain string; merge keys (<<) and compound keys are not part of a region; write the fields out`,
		}},
		{name: "foreign tag", changes: []string{"name: north-1", "name: !!binary bm9ydGg="}, want: []string{
			`4:9: metadata.name: "bm9ydGg=" is of the type !!binary, must be a string; put it in quotes: "bm9ydGg="`,
		}},
		{name: "two documents", changes: []string{"    node: trixie\n", "    node: trixie\n---\nkind: Region\n"}, want: []string{
			`67:1: a second YAML document begins here; a region is one document; remove the line '---' and what follows`,
		}},
		{name: "not YAML", changes: []string{"  networks:\n", "  networks\n"}, want: []string{
			`7:1: not valid YAML: mapping values are not allowed in this context`,
		}},
		{name: "not YAML: open bracket", changes: []string{"interfaces: [lan0, lan1]", "interfaces: [lan0, lan1"}, want: []string{
			`58:1: not valid YAML: did not find expected ',' or ']'`,
		}},
		{name: "not YAML: tab", changes: []string{"      dns: [10.20.0.1]", "\tdns: [10.20.0.1]"}, want: []string{
			`14:1: not valid YAML: found a tab character that violates indentation; YAML is indented with spaces, and this line has a tab`,
		}},
		{name: "not YAML: unknown anchor", changes: []string{"dns: [10.20.0.1]", "dns: *servers"}, want: []string{
			`14:1: not valid YAML: unknown anchor 'servers' referenced`,
		}},
		{name: "empty file", changes: []string{base, ""}, want: []string{
			`1:1: the file is empty; begin with a copy of region.example.yaml`,
		}},
		{name: "comments only", changes: []string{base, "# nothing\n"}, want: []string{
			`1:1: the file is empty; begin with a copy of region.example.yaml`,
		}},
		{name: "null", changes: []string{base, "null\n"}, want: []string{
			`1:1: the file is empty; begin with a copy of region.example.yaml`,
		}},
	})
}

// TestAliases: they are YAML like any other, within bounds.
func TestAliases(t *testing.T) {
	if got := report(t, edit(t, "dns: [10.20.0.1]", "dns: &servers [10.20.0.1]\n      ntp: *servers")); got != nil {
		t.Errorf("an alias is refused: %q", got)
	}
}

func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: regiond.dev/v1alpha1\nkind: Region\nmetadata: {name: bomb}\nspec:\n  hardware:\n    profiles:\n")
	b.WriteString("      - &p\n        name: a\n        network:\n          interfaces:\n            - &i\n              name: lan0\n              match: {boot: true}\n              addresses: [&a 10.0.0.1/24")
	b.WriteString(strings.Repeat(", *a", 15) + "]\n" + strings.Repeat("            - *i\n", 63) + strings.Repeat("      - *p\n", 255))
	got := report(t, b.String())
	if !strings.Contains(strings.Join(got, "\n"), "more than 200000 values, counting aliases") {
		t.Errorf("%d problems, none about the number of values", len(got))
	}
}

func TestCyclicAlias(t *testing.T) {
	got := report(t, edit(t, "interfaces: [lan0, lan1]", "interfaces: &self [*self, lan0, lan1]"))
	if len(got) == 0 {
		t.Error("a list that contains itself is taken for a list of names")
	}
}

func TestTooLarge(t *testing.T) {
	got := report(t, base+strings.Repeat("#", check.MaxFileSize))
	if len(got) != 1 || !strings.HasPrefix(got[0], "1:1: the file has ") {
		t.Errorf("report: %q", got)
	}
}

func TestTooManyItems(t *testing.T) {
	var b strings.Builder
	for i := range 257 {
		fmt.Fprintf(&b, "      - {name: c-%d, file: /etc/regiond/c}\n", i)
	}
	got := report(t, edit(t, "    discovery:\n", b.String()+"    discovery:\n"))
	if len(got) != 1 || got[0] != "22:7: spec.hardware.credentials: has 258 items, may have at most 256" {
		t.Errorf("report: %q", got)
	}
}
