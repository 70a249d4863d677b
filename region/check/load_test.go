package check_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"regiond.dev/regiond/region/check"
)

// base is a valid region that the cases of bad input change. Its line numbers are in their golden
// messages: add to it at the end only.
const base = `apiVersion: regiond.dev/v1alpha1
kind: Region
metadata:
  name: north-1
spec:
  networks:
    provisioning:
      cidr: 10.20.0.0/24
      address: 10.20.0.2
      gateway: 10.20.0.1
      dhcp:
        range: 10.20.0.100-10.20.0.199
        leaseTime: 1h
      dns: [10.20.0.1]
    bmc:
      cidr: 10.30.0.0/24
      address: 10.30.0.2
  controlPlane:
    podCIDR: 10.42.0.0/16
  hardware:
    credentials:
      - name: rack-1
        file: /etc/regiond/rack-1.yaml
    discovery:
      - range: 10.30.0.10-10.30.0.50
        credentials: rack-1
    servers:
      - name: r1-1
        bmc:
          address: 10.30.0.60
          credentials: rack-1
        profile: compute
      - name: r1-2
        bmc:
          address: 10.30.0.61
          credentials: rack-1
    profiles:
      - name: compute
        match:
          manufacturer: Dell*
          minMemory: 64Gi
        rootDisk:
          minSize: 200G
          maxSize: 1T
          wwn: naa.5002538e40a1b2c3
        kernelArguments:
          - iommu=pt
        network:
          interfaces:
            - name: lan0
              match:
                permanentMACAddress: 3c:ec:ef:12:34:56
            - name: lan1
              match:
                pciAddress: 0000:3b:00.1
          bonds:
            - name: bond0
              interfaces: [lan0, lan1]
              mode: 802.3ad
              lacpRate: fast
              addresses: [10.20.0.60/24]
              gateway: 10.20.0.1
      - name: other
  images:
    node: trixie
`

// edit changes the base: pairs of what is replaced and by what.
func edit(t *testing.T, changes ...string) string {
	t.Helper()
	text := base
	for i := 0; i+1 < len(changes); i += 2 {
		text = replaceOnce(t, text, changes[i], changes[i+1])
	}
	return text
}

// replaceOnce replaces old, which must be in text exactly once.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("%q is %d times in the region to change, want once", old, n)
	}
	return strings.Replace(text, old, new, 1)
}

// report is what a user sees, without the name of the file.
func report(t *testing.T, text string) []string {
	t.Helper()
	_, err := check.Load([]byte(text), "region.yaml")
	if err == nil {
		return nil
	}
	var problems check.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error of Load is %T, want Problems: %v", err, err)
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		line, found := strings.CutPrefix(p.String(), "region.yaml:")
		if !found {
			t.Errorf("problem has no file: %s", p)
		}
		lines[i] = line
	}
	return lines
}

// badInput is a case: changes of the base, and the whole report.
type badInput struct {
	name    string
	changes []string
	want    []string
}

func runBadInput(t *testing.T, cases []badInput) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, report(t, edit(t, c.changes...))); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadValid(t *testing.T) {
	doc, err := check.Load([]byte(base), "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := doc.Region
	if r.Name != "north-1" || r.Spec.Networks.Provisioning.DHCP.LeaseTime.Hours() != 1 || len(r.Spec.Hardware.Servers) != 2 {
		t.Errorf("decoded %+v", r)
	}
	bond := r.Spec.Hardware.Profiles[0].Network.Bonds[0]
	if bond.LACPRate != "fast" || bond.Addresses[0] != "10.20.0.60/24" {
		t.Errorf("decoded bond %+v", bond)
	}
	if r.Spec.Networks.Management != nil || r.Spec.Hardware.Discovery[0].Port != 0 {
		t.Error("Load filled in defaults; that is for Default")
	}
}

func TestExampleIsValid(t *testing.T) {
	data, err := os.ReadFile("../../region.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := check.Load(data, "region.example.yaml"); err != nil {
		t.Error(err)
	}
}

// TestEverythingAtOnce has a slip of each stage in one file: field names, types, the schema's
// choices and the rules between fields.
func TestEverythingAtOnce(t *testing.T) {
	got := report(t, edit(t,
		"provisioning:", "provisoning:",
		"leaseTime: 1h", "leaseTime: 1d",
		"podCIDR: 10.42.0.0/16", "podCIDR: 10.20.0.0/16",
		"node: trixie", "node: trixi",
		"range: 10.20.0.100-10.20.0.199", "rnge: 10.20.0.1-10.20.0.199",
	))
	want := []string{
		`7:5: spec.networks.provisoning: unknown field; did you mean "provisioning"?`,
		`12:9: spec.networks.provisioning.dhcp.rnge: unknown field; did you mean "range"?`,
		`12:15: spec.networks.provisioning.dhcp.range: "10.20.0.1-10.20.0.199" contains the seed host's address 10.20.0.2 of spec.networks.provisioning.address (line 9); end the range before it or begin it after it`,
		`12:15: spec.networks.provisioning.dhcp.range: "10.20.0.1-10.20.0.199" contains the address 10.20.0.1 of spec.networks.provisioning.gateway (line 10); end the range before it or begin it after it`,
		`12:15: spec.networks.provisioning.dhcp.range: "10.20.0.1-10.20.0.199" contains the address 10.20.0.60 of spec.hardware.profiles[0].network.bonds[0].addresses[0] (line 61); end the range before it or begin it after it`,
		`13:20: spec.networks.provisioning.dhcp.leaseTime: "1d" is not a duration; write hours, minutes and seconds, e.g. 1h30m`,
		`19:14: spec.controlPlane.podCIDR: "10.20.0.0/16" overlaps 10.20.0.0/24 of spec.networks.provisioning.cidr (line 8); choose a network that nothing else uses`,
		`65:11: spec.images.node: "trixi" is not supported; did you mean "trixie"?`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
