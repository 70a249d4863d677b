package check_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// openstack is added to the end of the base, whose line numbers go on.
const openstack = `  openstack:
    clusters:
      - name: general
        address: 10.20.0.2
        profiles: [compute]
        physicalNetworks:
          - name: physnet1
            interface: data0
            vlans: 100-199
        values:
          nova:
            cpu_allocation_ratio: 4.5
            conf:
              libvirt: {virt_type: qemu, images: [a, b], on: true}
        nodes:
          - name: r1-1
            overrides:
              nova: {reserved_host_memory_mb: 512}
`

func withOpenStack(t *testing.T, changes ...string) string {
	t.Helper()
	text := openstack
	for i := 0; i+1 < len(changes); i += 2 {
		text = replaceOnce(t, text, changes[i], changes[i+1])
	}
	return base + text
}

func TestOpenStackValuesAreKeptWithTheirPlaces(t *testing.T) {
	doc, err := check.Load([]byte(withOpenStack(t)), "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := doc.Region.Spec.OpenStack.Clusters[0]
	var values any
	if err := json.Unmarshal(c.Values.Raw, &values); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"nova": map[string]any{
		"cpu_allocation_ratio": 4.5,
		"conf": map[string]any{"libvirt": map[string]any{
			"virt_type": "qemu", "images": []any{"a", "b"}, "on": true,
		}},
	}}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	first := strings.Count(base, "\n") + 1
	for path, offset := range map[string]int{
		"spec.openstack.clusters[0].values.nova.cpu_allocation_ratio":                11,
		"spec.openstack.clusters[0].values.nova.conf.libvirt.virt_type":              13,
		"spec.openstack.clusters[0].nodes[0].overrides.nova.reserved_host_memory_mb": 17,
	} {
		if _, line, ok := doc.Position(path); !ok || line != first+offset {
			t.Errorf("%s: line %d, %v; want %d", path, line, ok, first+offset)
		}
	}
	if _, _, ok := doc.Position("spec.openstack.clusters[0].values.neutron"); ok {
		t.Error("a field that is not written has a position")
	}
}

func TestOpenStackDefaults(t *testing.T) {
	doc, err := check.Load([]byte(withOpenStack(t, "        address: 10.20.0.2\n", "")), "")
	if err != nil {
		t.Fatal(err)
	}
	region.Default(doc.Region)
	c := doc.Region.Spec.OpenStack.Clusters[0]
	if c.Release != region.ReleaseEpoxy || c.Address != "10.20.0.2" {
		t.Errorf("release %q, address %q", c.Release, c.Address)
	}
}

const second = `      - name: storage
        address: 10.20.0.3
        profiles: [other]
`

func TestOpenStackBadInput(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []string
		more    string
		want    []string
	}{
		{name: "unknown release", changes: []string{"- name: general", "- name: general\n        release: epoxi"}, want: []string{
			`69:18: spec.openstack.clusters[0].release: "epoxi" is not supported; did you mean "epoxy"?`}},
		{name: "two clusters with one name", more: strings.Replace(second, "storage", "general", 1), want: []string{
			`84:15: spec.openstack.clusters[1].name: "general" is already the name of the OpenStack cluster spec.openstack.clusters[0].name (line 68); give each OpenStack cluster its own name`}},
		{name: "two clusters at one address", more: strings.Replace(second, "10.20.0.3", "10.20.0.2", 1), want: []string{
			`85:18: spec.openstack.clusters[1].address: "10.20.0.2" is already the address of spec.openstack.clusters[0].address (line 69); give the seed host a second address in the provisioning network and write it here`}},
		{name: "two clusters, one without address", more: strings.Replace(second, "        address: 10.20.0.3\n", "", 1), want: []string{
			`84:9: spec.openstack.clusters[1].address: required field is missing: the region has several OpenStack clusters, and each is served at its own address; write an address of the seed host`}},
		{name: "two clusters, one without profiles", more: strings.Replace(second, "        profiles: [other]\n", "", 1), want: []string{
			`84:9: spec.openstack.clusters[1].profiles: required field is missing: the region has several OpenStack clusters, and no host can be in two; list the hardware profiles of this cluster's hosts`}},
		{name: "a profile in two clusters", more: strings.Replace(second, "other", "compute", 1), want: []string{
			`86:20: spec.openstack.clusters[1].profiles[0]: "compute" is already among the profiles of spec.openstack.clusters[0].profiles[0] (line 70); give each host's profile to one cluster`}},
		{name: "unknown profile", changes: []string{"[compute]", "[compte]"}, want: []string{
			`70:20: spec.openstack.clusters[0].profiles[0]: "compte" is not the name of any profile in spec.hardware.profiles; did you mean "compute"?`}},
		{name: "VLANs", changes: []string{"100-199", "199-100"}, want: []string{
			`74:20: spec.openstack.clusters[0].physicalNetworks[0].vlans: "199-100" is not a range of VLANs; write "first-last" with 1 to 4094 (IEEE 802.1Q), e.g. 100-199`}},
		{name: "octal", changes: []string{"reserved_host_memory_mb: 512", "reserved_host_memory_mb: 010"}, want: []string{
			`83:47: spec.openstack.clusters[0].nodes[0].overrides.nova.reserved_host_memory_mb: "010" is not a plain decimal number; put it in quotes, or write it without leading zeros, base or separators`}},
		{name: "value given twice", changes: []string{"virt_type: qemu,", "virt_type: qemu, virt_type: kvm,"}, want: []string{
			`79:42: spec.openstack.clusters[0].values.nova.conf.libvirt.virt_type: is given twice; remove one of them`}},
		{name: "a mapping is wanted", changes: []string{"        values:\n          nova:\n            cpu_allocation_ratio: 4.5\n            conf:\n              libvirt: {virt_type: qemu, images: [a, b], on: true}\n", "        values: nova\n"}, want: []string{
			`75:17: spec.openstack.clusters[0].values: "nova" is a string, must be a mapping`}},
		{name: "not a number of JSON", changes: []string{"4.5", ".inf"}, want: []string{
			`77:35: spec.openstack.clusters[0].values.nova.cpu_allocation_ratio: ".inf" is not a number in JSON; put it in quotes`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := report(t, withOpenStack(t, c.changes...)+c.more)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}
