package region

// HostNetwork is the network configuration of an installed server. Interfaces are bound to
// hardware by MAC address at installation, never by the kernel's name (names change with kernels).
type HostNetwork struct {
	// Interfaces of the host.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Bonds over interfaces.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Bonds []Bond `json:"bonds,omitempty"`
}

// Interface is one network interface of an installed server.
type Interface struct {
	// Name given to the interface, at most 15 bytes (IFNAMSIZ).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name"`
	// Match selects the interface among those in the inventory. It must fit exactly one.
	Match InterfaceMatch `json:"match"`
	// +optional
	AddressConfig `json:",inline"`
}

// InterfaceMatch selects one interface. Exactly one field is given.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type InterfaceMatch struct {
	// Boot matches the interface that netbooted.
	// +optional
	Boot bool `json:"boot,omitempty"`
	// PermanentMACAddress in lower-case colon notation, e.g. 3c:ec:ef:12:34:56.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`
	// +optional
	PermanentMACAddress string `json:"permanentMACAddress,omitempty"`
	// PCIAddress as domain:bus:device.function, e.g. 0000:3b:00.0.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`
	// +optional
	PCIAddress string `json:"pciAddress,omitempty"`
}

// AddressConfig is how a link gets its addresses.
type AddressConfig struct {
	// DHCP asks for an IPv4 address by DHCP.
	// +optional
	DHCP bool `json:"dhcp,omitempty"`
	// Addresses in CIDR notation, e.g. 10.20.0.11/24.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// Gateway is the default gateway, inside the network of one of the addresses.
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// MTU in bytes. Default: the driver's.
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=9216
	// +optional
	MTU int32 `json:"mtu,omitempty"`
}

// Bond joins interfaces (Linux bonding driver).
type Bond struct {
	// Name of the bond, at most 15 bytes (IFNAMSIZ).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name"`
	// Interfaces that are members, by name.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Interfaces []string `json:"interfaces"`
	// Mode as in the Linux bonding documentation. Default 802.3ad.
	// +kubebuilder:validation:Enum=balance-rr;active-backup;balance-xor;broadcast;"802.3ad";balance-tlb;balance-alb
	// +optional
	Mode string `json:"mode,omitempty"`
	// LACPRate at which the switch is asked to send LACPDUs: every 30 s (slow) or every second (fast).
	// With 802.3ad only; default slow.
	// +kubebuilder:validation:Enum=slow;fast
	// +optional
	LACPRate string `json:"lacpRate,omitempty"`
	// XmitHashPolicy as in the Linux bonding documentation, with 802.3ad, balance-xor and balance-tlb
	// only. Default layer3+4 with 802.3ad.
	// +kubebuilder:validation:Enum=layer2;layer2+3;layer3+4;encap2+3;encap3+4
	// +optional
	XmitHashPolicy string `json:"xmitHashPolicy,omitempty"`
	// +optional
	AddressConfig `json:",inline"`
}
