package lab

import (
	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/region"
)

// Names of the lab's OpenStack.
const (
	clusterName     = "lab"
	physicalNetwork = "physnet1"
	// keystoneRegion of labs from before it followed the region's name, too.
	keystoneRegion = "RegionOne"
)

// openstack is the lab's OpenStack cluster. All machines are its compute hosts.
func (l Lab) openstack() region.OpenStackDeclaration {
	d := region.OpenStackDeclaration{
		Name:             clusterName,
		Release:          l.Spec.Release(),
		PhysicalNetworks: []region.PhysicalNetwork{{Name: physicalNetwork, Interface: dataInterface, VLANs: "100-199"}},
		Values:           raw(labValues),
	}
	for _, m := range l.Spec.Machines {
		if !m.VM() {
			d.Nodes = append(d.Nodes, region.OpenStackNodeValues{Name: m.Name, Values: raw(namespaceValues)})
		}
	}
	return d
}

// labValues: guests are emulated by machines that may be emulated themselves, and that are small. A
// guest's disk is 2 MiB, so that a copy is as fast as an overlay; one DHCP server a network spares
// the other node its helpers; reserved is in MB. Namespaces share this machine's kernel, which need
// not have Open vSwitch's module.
const labValues = `{
	"nova": {"virt_type": "qemu", "cpu_mode": "custom", "cpu_models": ["qemu64"], "images_type": "raw",
		"reserved_host_memory_mb": 256, "reserved_host_disk_mb": 512, "cpu_allocation_ratio": 8.0},
	"mariadb": {"innodb_buffer_pool_size": "128M", "innodb_log_file_size": "48M"},
	"neutron": {"dhcp_agents_per_network": 1},
	"keystone": {"region": "` + keystoneRegion + `"},
	"openvswitch": {"datapath_type": "netdev"}
}`

// namespaceValues: what libvirt keeps guests apart with is the machine's, which namespaces share,
// and its limits may not be raised.
const namespaceValues = `{"libvirt": {"security_driver": "none", "namespaces": false, "cgroups": false, "max_processes": 0, "max_files": 0}}`

// raw is JSON as a field of a declaration.
func raw(values string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(values)} }
