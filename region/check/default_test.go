package check_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

func load(t *testing.T, text string) *region.Region {
	t.Helper()
	doc, err := check.Load([]byte(text), "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc.Region
}

const smallest = `apiVersion: regiond.dev/v1alpha1
kind: Region
metadata: {name: lab}
spec:
  networks:
    provisioning: {cidr: 10.99.0.0/24, address: 10.99.0.1, dhcp: {range: 10.99.0.100-10.99.0.199}}
  hardware:
    credentials: [{name: lab, file: /etc/lab.yaml}]
    discovery: [{range: 10.98.0.11-10.98.0.20, credentials: lab}]
    servers: [{name: a, bmc: {address: 10.98.0.30, credentials: lab}}]
    profiles:
      - name: all
        network:
          interfaces: [{name: lan0, match: {boot: true}}, {name: lan1, match: {pciAddress: 0000:01:00.0}}]
          bonds: [{name: bond0, interfaces: [lan0]}, {name: bond1, interfaces: [lan1], mode: active-backup}]
`

const smallestDefaulted = `apiVersion: regiond.dev/v1alpha1
kind: Region
metadata:
  name: lab
spec:
  networks:
    provisioning:
      cidr: 10.99.0.0/24
      address: 10.99.0.1
      dhcp:
        range: 10.99.0.100-10.99.0.199
        leaseTime: 1h0m0s
    management:
      cidr: 10.99.0.0/24
      address: 10.99.0.1
  controlPlane:
    podCIDR: 10.42.0.0/16
    serviceCIDR: 10.43.0.0/16
    dataDir: /var/lib/regiond
  hardware:
    discovery:
      - range: 10.98.0.11-10.98.0.20
        credentials: lab
        port: 623
    credentials:
      - name: lab
        file: /etc/lab.yaml
    servers:
      - name: a
        bmc:
          address: 10.98.0.30
          port: 623
          protocol: ipmi
          credentials: lab
    profiles:
      - name: all
        role: compute
        firmware: UEFI
        network:
          interfaces:
            - name: lan0
              match:
                boot: true
            - name: lan1
              match:
                pciAddress: 0000:01:00.0
          bonds:
            - name: bond0
              interfaces:
                - lan0
              mode: 802.3ad
              lacpRate: slow
              xmitHashPolicy: layer3+4
            - name: bond1
              interfaces:
                - lan1
              mode: active-backup
  images:
    node: trixie
    dir: /var/cache/regiond/images
`

func TestDefault(t *testing.T) {
	r := load(t, smallest)
	region.Default(r)
	text, err := region.ViewYAML(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallestDefaulted, string(text)); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestDefaultIsIdempotent(t *testing.T) {
	for _, text := range []string{base, smallestDefaulted} {
		once := load(t, text)
		region.Default(once)
		twice := once.DeepCopy()
		region.Default(twice)
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Errorf("second call changed (-once +twice):\n%s", diff)
		}
	}
}

func TestDefaultKeepsWhatIsSet(t *testing.T) {
	r := load(t, edit(t, "address: 10.30.0.61", "address: 10.30.0.61\n          port: 6230",
		"    bmc:\n      cidr", "    management: {cidr: 10.10.0.0/24, address: 10.10.0.2}\n    bmc:\n      cidr"))
	region.Default(r)
	if got := r.Spec.Hardware.Servers[1].BMC.Port; got != 6230 {
		t.Errorf("port is %d, want 6230", got)
	}
	if got := r.Spec.Networks.Management.CIDR; got != "10.10.0.0/24" {
		t.Errorf("management is %s, want 10.10.0.0/24", got)
	}
	if got := r.Spec.Networks.Provisioning.DHCP.LeaseTime.Hours(); got != 1 {
		t.Errorf("lease time is %v h, want 1", got)
	}
}

// TestViewJSON: the JSON view is a region file too.
func TestViewJSON(t *testing.T) {
	r := load(t, smallest)
	region.Default(r)
	text, err := region.ViewJSON(r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Errorf("not JSON: %s", text)
	}
	if diff := cmp.Diff(r, load(t, string(text))); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// TestValidate: rules hold for objects that come from elsewhere, without positions.
func TestValidate(t *testing.T) {
	r := load(t, base)
	region.Default(r)
	if err := check.Validate(r); err != nil {
		t.Fatal(err)
	}
	r.Spec.Networks.BMC.Address = "10.31.0.2"
	r.Spec.Hardware.Servers[0].Name = ""
	err := check.Validate(r)
	var problems check.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error is %T: %v", err, err)
	}
	want := `spec.networks.bmc.address: "10.31.0.2" is not in the network 10.30.0.0/24; choose from 10.30.0.1-10.30.0.254
spec.hardware.servers[0].name: "" is empty; write a value`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
