// Package identity is what an installed system knows of itself before it has spoken to anyone:
// the installer writes it to the data partition, the node agent reads it at every boot, on
// either root slot. It imports nothing beyond the standard library.
package identity

// Path of the identity below the root of the data partition, and the mount point of that partition
// in the installed system. The file holds a join token: its mode is 0600.
const (
	File       = "node.json"
	MountPoint = "/var/lib/regiond"
)

// Identity of an installed system.
type Identity struct {
	// Hostname is the name of the Server and of its Host.
	Hostname  string `json:"hostname"`
	RegionUID string `json:"regionUID"`
	ServerUID string `json:"serverUID"`
	// Role as in region.Role.
	Role string `json:"role"`
	// Image version that was installed.
	Image string `json:"image"`
	// KernelArguments of the profile, beyond those of the image.
	KernelArguments []string `json:"kernelArguments,omitempty"`
	Network         Network  `json:"network"`
	// EnrollURL is regiond's own API, https://address:7443.
	EnrollURL string `json:"enrollURL"`
	// KubernetesURL is the API server, https://address:6443.
	KubernetesURL string `json:"kubernetesURL"`
	// CA certificates (PEM) that sign both.
	CA string `json:"ca"`
	// JoinToken is exchanged once for a client certificate.
	JoinToken string `json:"joinToken"`
}

// Network configuration with every interface bound to a MAC address.
type Network struct {
	Interfaces []Interface `json:"interfaces,omitempty"`
	Bonds      []Bond      `json:"bonds,omitempty"`
}

// Interface bound to hardware.
type Interface struct {
	Name       string `json:"name"`
	MACAddress string `json:"macAddress"`
	Addresses
}

// Bond over interfaces; the strings are those of the Linux bonding driver.
type Bond struct {
	Name           string   `json:"name"`
	Interfaces     []string `json:"interfaces"`
	Mode           string   `json:"mode"`
	LACPRate       string   `json:"lacpRate,omitempty"`
	XmitHashPolicy string   `json:"xmitHashPolicy,omitempty"`
	Addresses
}

// Addresses of a link.
type Addresses struct {
	DHCP      bool     `json:"dhcp,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Gateway   string   `json:"gateway,omitempty"`
	// MTU in bytes, 0 for the driver's.
	MTU int32 `json:"mtu,omitempty"`
}
