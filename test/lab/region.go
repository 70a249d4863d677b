package lab

import (
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// region is the lab's region: its servers are found by discovery, as a new rack's would be.
func (l Lab) region(imageDir string) regionFile {
	var profiles []region.Profile
	var discovery []region.DiscoveryRange
	for i, m := range l.Spec.Machines {
		p := region.Profile{Name: m.Name, Role: region.RoleCompute, Network: l.hostNetwork(i)}
		if m.VM() {
			p.Match.SerialNumbers = []string{l.identity(i).serialNumber()}
			p.Firmware = m.firmware()
			p.RootDisk.SerialNumber = l.identity(i).diskSerialNumber(0)
			address := bmcAddress(i).String()
			discovery = append(discovery, region.DiscoveryRange{Range: address + "-" + address, Credentials: "lab"})
		} else {
			p.Match.Name = m.Name // a host that says so when it is enrolled; no server is called that
		}
		profiles = append(profiles, p)
	}
	f := regionFile{TypeMeta: metav1.TypeMeta{APIVersion: region.GroupVersion.String(), Kind: "Region"}}
	f.Metadata.Name = "lab-" + l.Name
	f.Spec = region.RegionSpec{
		Networks: region.Networks{
			Provisioning: region.ProvisioningNetwork{
				Network:   region.Network{CIDR: provisioning.String(), Address: SeedAddress.String()},
				Interface: "prov0",
				DHCP:      region.DHCP{Range: "10.99.0.100-10.99.0.199"},
			},
			BMC: &region.Network{CIDR: bmcNetwork.String(), Address: seedBMC.String()},
		},
		ControlPlane: region.ControlPlane{DataDir: SeedData},
		Hardware: region.Hardware{
			Discovery:   discovery,
			Credentials: []region.Credential{{Name: "lab", File: filepath.Join(seedFiles, fileCredentials)}},
			Profiles:    profiles,
		},
		Images: region.Images{Dir: imageDir},
	}
	if l.Spec.OpenStack != nil {
		f.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{l.openstack()}
	}
	return f
}

// hostNetwork of the i-th machine: guests' traffic has an interface of its own.
func (l Lab) hostNetwork(i int) *region.HostNetwork {
	return &region.HostNetwork{Interfaces: []region.Interface{
		{Name: bootInterface, Match: region.InterfaceMatch{Boot: true}, AddressConfig: region.AddressConfig{DHCP: true}},
		{Name: dataInterface, Match: region.InterfaceMatch{PermanentMACAddress: l.macAddress(i, dataInterface)}},
	}}
}

// regionFile is a region.yaml: a Region without the fields that the API server fills.
type regionFile struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec region.RegionSpec `json:"spec"`
}
