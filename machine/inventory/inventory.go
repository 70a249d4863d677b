// Package inventory is what a machine says of itself. The types are plain data, so that the
// installer in RAM can use them without the Kubernetes libraries; the reading of them from the
// kernel is in the same package.
package inventory

// FirmwareMode is how a server boots.
//
// +kubebuilder:validation:Enum=UEFI;BIOS
type FirmwareMode string

// Firmware modes.
const (
	FirmwareUEFI FirmwareMode = "UEFI"
	FirmwareBIOS FirmwareMode = "BIOS"
)

// DiskType is how a disk stores and is attached.
//
// +kubebuilder:validation:Enum=NVMe;SSD;HDD
type DiskType string

// Disk types.
const (
	DiskNVMe DiskType = "NVMe"
	DiskSSD  DiskType = "SSD"
	DiskHDD  DiskType = "HDD"
)

// Inventory is what a machine says of itself, read from the kernel by the installer.
//
// +kubebuilder:object:generate=true
type Inventory struct {
	System SystemInfo `json:"system"`
	CPU    CPUInfo    `json:"cpu"`
	// MemoryBytes installed.
	MemoryBytes int64 `json:"memoryBytes"`
	// Firmware mode the machine booted in.
	Firmware FirmwareMode `json:"firmware"`
	// +optional
	Disks []Disk `json:"disks,omitempty"`
	// +optional
	NICs []NIC `json:"nics,omitempty"`
}

// SystemInfo is from SMBIOS (DMI) types 0, 1 and 2.
//
// +kubebuilder:object:generate=true
type SystemInfo struct {
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// +optional
	Product string `json:"product,omitempty"`
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// +optional
	UUID string `json:"uuid,omitempty"`
	// +optional
	BIOSVersion string `json:"biosVersion,omitempty"`
}

// CPUInfo sums up the processors.
//
// +kubebuilder:object:generate=true
type CPUInfo struct {
	// +optional
	Model string `json:"model,omitempty"`
	// Sockets, Cores and Threads in total.
	Sockets int32 `json:"sockets"`
	Cores   int32 `json:"cores"`
	Threads int32 `json:"threads"`
}

// Disk is a local block device.
//
// +kubebuilder:object:generate=true
type Disk struct {
	// Name is the kernel's name in the installer, e.g. nvme0n1. It may differ after the next boot.
	Name string `json:"name"`
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// +optional
	WWN string `json:"wwn,omitempty"`
	// +optional
	Model string   `json:"model,omitempty"`
	Type  DiskType `json:"type"`
	Bytes int64    `json:"bytes"`
	// Blank says that only zeros were found: at both ends, where partitions usually begin, and in samples
	// across the disk.
	Blank bool `json:"blank"`
	// Problem is why the disk could not be read. Nothing is ever written to such a disk.
	// +optional
	Problem string `json:"problem,omitempty"`
	// Content names what was found, e.g. "GPT, ext4", for people.
	// +optional
	Content string `json:"content,omitempty"`
	// Marker is what an earlier installation by regiond left on the disk.
	// +optional
	Marker *InstallMarker `json:"marker,omitempty"`
}

// InstallMarker is evidence on a disk of who installed it. An incomplete one is left by an
// installation that was cut off.
//
// +kubebuilder:object:generate=true
type InstallMarker struct {
	RegionUID string `json:"regionUID"`
	ServerUID string `json:"serverUID"`
	// +optional
	Image string `json:"image,omitempty"`
	// Complete says that the image was written whole and the identity injected.
	Complete bool `json:"complete"`
	// Installed is when, in RFC 3339.
	// +optional
	Installed string `json:"installed,omitempty"`
}

// NIC is a network interface with a permanent MAC address. Interfaces of the BMC itself
// (usb, cdc_ether) are left out: their MAC addresses are the same on every machine.
//
// +kubebuilder:object:generate=true
type NIC struct {
	// Name is the kernel's name in the installer.
	Name       string `json:"name"`
	MACAddress string `json:"macAddress"`
	// +optional
	Driver string `json:"driver,omitempty"`
	// +optional
	PCIAddress string `json:"pciAddress,omitempty"`
	// LinkUp is the carrier.
	LinkUp bool `json:"linkUp"`
	// SpeedMbps of the link, 0 when unknown.
	// +optional
	SpeedMbps int32 `json:"speedMbps,omitempty"`
	// Boot marks the interface that netbooted.
	// +optional
	Boot bool `json:"boot,omitempty"`
	// LLDP neighbour (IEEE 802.1AB), when one was heard.
	// +optional
	LLDP *LLDPNeighbour `json:"lldp,omitempty"`
}

// LLDPNeighbour is the switch port on the other end.
//
// +kubebuilder:object:generate=true
type LLDPNeighbour struct {
	// +optional
	ChassisID string `json:"chassisID,omitempty"`
	// +optional
	PortID string `json:"portID,omitempty"`
	// +optional
	SystemName string `json:"systemName,omitempty"`
}
