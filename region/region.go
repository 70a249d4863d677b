package region

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
)

// Region is one cloud region: the whole declaration of an operator, as written in region.yaml.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Region struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RegionSpec `json:"spec"`
	// +optional
	Status RegionStatus `json:"status,omitempty"`
}

// RegionList is a list of regions; a control plane holds exactly one.
//
// +kubebuilder:object:root=true
type RegionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Region `json:"items"`
}

// RegionSpec is what the operator declares.
type RegionSpec struct {
	// Networks the seed host is connected to.
	Networks Networks `json:"networks"`
	// ControlPlane configures the embedded Kubernetes cluster on the seed host.
	// +optional
	ControlPlane ControlPlane `json:"controlPlane,omitempty"`
	// Hardware says where servers are found and what is made of them.
	// +optional
	Hardware Hardware `json:"hardware,omitempty"`
	// Images selects what is installed.
	// +optional
	Images Images `json:"images,omitempty"`
	// OpenStack declares the clusters that run on the control plane and the installed servers.
	// +optional
	OpenStack OpenStack `json:"openstack,omitempty"`
	// Backup of the control host. Default: none is made by itself.
	// +optional
	Backup *Backup `json:"backup,omitempty"`
}

// Networks of a region. The management and BMC networks may be routed, the
// provisioning network must be one broadcast domain with the servers, or be
// reached by a DHCP relay (RFC 2131 section 4.1).
type Networks struct {
	// Provisioning is where servers netboot and where their installers and agents reach regiond.
	Provisioning ProvisioningNetwork `json:"provisioning"`
	// Management is where the Kubernetes API is served. Defaults to the provisioning network.
	// +optional
	Management *Network `json:"management,omitempty"`
	// BMC is where baseboard management controllers answer.
	// +optional
	BMC *Network `json:"bmc,omitempty"`
}

// Network is an IPv4 network as the seed host sees it.
type Network struct {
	// CIDR of the network, e.g. 10.20.0.0/24.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$`
	CIDR string `json:"cidr"`
	// Address of the seed host in this network, e.g. 10.20.0.2. Empty for a network reached through a
	// router.
	// +optional
	Address string `json:"address,omitempty"`
	// Gateway handed to servers in this network.
	// +optional
	Gateway string `json:"gateway,omitempty"`
}

// ProvisioningNetwork is the network on which regiond serves DHCP, TFTP and HTTP.
type ProvisioningNetwork struct {
	Network `json:",inline"`
	// Interface of the seed host on which DHCP is answered. Defaults to the interface holding Address.
	// +kubebuilder:validation:MaxLength=15
	// +optional
	Interface string `json:"interface,omitempty"`
	// DHCP is the dynamic range and its lease time.
	DHCP DHCP `json:"dhcp"`
	// DNS servers handed to servers, by address (DHCP option 6).
	// +kubebuilder:validation:MaxItems=8
	// +optional
	DNS []string `json:"dns,omitempty"`
	// NTP servers handed to servers, by address (DHCP option 42).
	// +kubebuilder:validation:MaxItems=8
	// +optional
	NTP []string `json:"ntp,omitempty"`
}

// DHCP is the address range that regiond leases to servers.
type DHCP struct {
	// Range is "first-last", both included, e.g. 10.20.0.100-10.20.0.199.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(\.[0-9]{1,3}){3}-[0-9]{1,3}(\.[0-9]{1,3}){3}$`
	Range string `json:"range"`
	// LeaseTime of an address in hours, minutes and seconds, at least 2m, e.g. 1h30m. Default 1h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,8}s)?$`
	// +optional
	LeaseTime *metav1.Duration `json:"leaseTime,omitempty"`
}

// ControlPlane configures the embedded Kubernetes cluster.
type ControlPlane struct {
	// PodCIDR is the range of pod addresses. Default 10.42.0.0/16.
	// +optional
	PodCIDR string `json:"podCIDR,omitempty"`
	// ServiceCIDR is the range of Service addresses. Default 10.43.0.0/16.
	// +optional
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// DataDir holds everything that regiond keeps on the seed host. Default /var/lib/regiond.
	// +kubebuilder:validation:Pattern=`^/.`
	// +optional
	DataDir string `json:"dataDir,omitempty"`
}

// Hardware says where BMCs are found, how they are opened, and what their servers become.
type Hardware struct {
	// Discovery lists address ranges that are searched for BMCs.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Discovery []DiscoveryRange `json:"discovery,omitempty"`
	// Credentials for BMCs, referred to by name.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Credentials []Credential `json:"credentials,omitempty"`
	// Servers known beforehand.
	// +kubebuilder:validation:MaxItems=4096
	// +optional
	Servers []StaticServer `json:"servers,omitempty"`
	// Profiles decide, first match first, what a server becomes.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Profiles []Profile `json:"profiles,omitempty"`
}

// DiscoveryRange is a range of addresses searched for BMCs.
type DiscoveryRange struct {
	// Range is "first-last", both included, within one /16, e.g. 10.30.0.10-10.30.0.50.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(\.[0-9]{1,3}){3}-[0-9]{1,3}(\.[0-9]{1,3}){3}$`
	Range string `json:"range"`
	// Credentials is the name of an entry in hardware.credentials.
	Credentials string `json:"credentials"`
	// Port of RMCP+ on the BMCs. Default 623.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
}

// Credential refers to a BMC user. The secret itself is never part of region.yaml.
type Credential struct {
	// Name by which discovery ranges and servers refer to it, a DNS label (RFC 1123).
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// File on the seed host with the keys "username" and "password" in YAML, readable by root only. It
	// is imported into an encrypted Secret when the control plane starts, and again when it changes.
	// +kubebuilder:validation:Pattern=`^/.`
	File string `json:"file"`
}

// BMCProtocol is how a BMC is spoken to.
//
// +kubebuilder:validation:Enum=ipmi
type BMCProtocol string

// ProtocolIPMI is IPMI v2.0 over RMCP+ (IPMI specification v2.0 rev 1.1, section 13).
const ProtocolIPMI BMCProtocol = "ipmi"

// BMCEndpoint is where and how one BMC is reached.
type BMCEndpoint struct {
	// Address of the BMC, an IP address.
	Address string `json:"address"`
	// Port of RMCP+. Default 623.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Protocol spoken. Default ipmi.
	// +optional
	Protocol BMCProtocol `json:"protocol,omitempty"`
	// Credentials is the name of an entry in hardware.credentials.
	Credentials string `json:"credentials"`
}

// StaticServer is a server known beforehand by its BMC.
type StaticServer struct {
	// Name of the server, a DNS label (RFC 1123); becomes its host name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// BMC of the server.
	BMC BMCEndpoint `json:"bmc"`
	// Profile overrides the matching of profiles.
	// +optional
	Profile string `json:"profile,omitempty"`
	// TakeoverUntil lets regiond end, until this time (RFC 3339), what runs on the server although
	// regiond did not start it: it is asked to shut down, and its power is cut if it does not. It says
	// nothing about what is on the disks.
	// +optional
	TakeoverUntil *metav1.Time `json:"takeoverUntil,omitempty"`
	// Power says what becomes of the server when it is installed and off: always-on powers it on
	// again, manual leaves it off. Default "manual".
	// +optional
	Power PowerPolicy `json:"power,omitempty"`
	// MACAddresses of the server's NICs. They tell machines apart whose firmware has neither a system
	// UUID nor a serial number of its own: a machine without one of them is not taken for this server.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	// +listType=set
	MACAddresses []string `json:"macAddresses,omitempty"`
}

// Role of an installed server.
//
// +kubebuilder:validation:Enum=compute
type Role string

// RoleCompute is a server that will run guests.
const RoleCompute Role = "compute"

// Profile decides what becomes of the servers it matches.
type Profile struct {
	// Name of the profile, a DNS label (RFC 1123).
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Match selects servers; an empty match takes every server.
	// +optional
	Match ProfileMatch `json:"match,omitempty"`
	// Role of the installed server. Default compute.
	// +optional
	Role Role `json:"role,omitempty"`
	// Firmware mode for the one-shot network boot. Default UEFI.
	// +optional
	Firmware inventory.FirmwareMode `json:"firmware,omitempty"`
	// RootDisk selects the disk that the operating system is written to. It must fit exactly one disk.
	// +optional
	RootDisk DiskSelector `json:"rootDisk,omitempty"`
	// KernelArguments are appended to the installed kernel's command line, without spaces. Those that
	// the image owns are refused: root=, init=, initrd=, rdinit= and regiond.*.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	// +optional
	KernelArguments []string `json:"kernelArguments,omitempty"`
	// Network of the installed server. Default: DHCP on the interface that netbooted.
	// +optional
	Network *HostNetwork `json:"network,omitempty"`
}

// ProfileMatch selects servers by what their inventory says. All given fields must match;
// manufacturer, product and name are shell patterns (path.Match).
type ProfileMatch struct {
	// Name of the server, a shell pattern, e.g. r1-compute-*.
	// +optional
	Name string `json:"name,omitempty"`
	// Manufacturer in SMBIOS, a shell pattern, e.g. Dell*.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// Product in SMBIOS, a shell pattern, e.g. PowerEdge R7?15.
	// +optional
	Product string `json:"product,omitempty"`
	// SerialNumbers of the servers in SMBIOS, one of which must be the server's.
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	SerialNumbers []string `json:"serialNumbers,omitempty"`
	// MinMemory as a Kubernetes quantity, e.g. 64Gi.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$`
	// +optional
	MinMemory string `json:"minMemory,omitempty"`
	// MinCPUs counts logical CPUs.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinCPUs int32 `json:"minCPUs,omitempty"`
}

// DiskSelector selects one disk by what does not change across boots: never by /dev name.
// All given fields must match.
type DiskSelector struct {
	// SerialNumber of the disk, as lsblk -o SERIAL shows it.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// WWN as the kernel shows it, e.g. eui.0025388b710114b1 or naa.5002538e40a1b2c3.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// Model is a shell pattern.
	// +optional
	Model string `json:"model,omitempty"`
	// MinSize of the disk as a Kubernetes quantity, e.g. 200G; the size itself is included.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$`
	// +optional
	MinSize string `json:"minSize,omitempty"`
	// MaxSize of the disk as a Kubernetes quantity, e.g. 2T; the size itself is included.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$`
	// +optional
	MaxSize string `json:"maxSize,omitempty"`
	// Type of the disk.
	// +optional
	Type inventory.DiskType `json:"type,omitempty"`
	// Overwrite allows a disk to be written that holds data which regiond did not put there.
	// Without it such a disk is refused.
	// +optional
	Overwrite bool `json:"overwrite,omitempty"`
}

// Images selects what is installed on servers.
type Images struct {
	// Node is the node operating system image. Default "trixie", Debian 13.
	// +kubebuilder:validation:Enum=trixie
	// +optional
	Node string `json:"node,omitempty"`
	// Dir holds images built by `regiond image build`. Default /var/cache/regiond/images.
	// +kubebuilder:validation:Pattern=`^/.`
	// +optional
	Dir string `json:"dir,omitempty"`
}

// RegionStatus is what was observed of the region.
type RegionStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
