// Package preflight checks, before anything is changed, whether a host can become the seed host of
// a region, and how to fix what prevents it. Collect collects facts about the host; Check is a pure
// function of those facts and the region's requirements.
package preflight

import (
	"net/netip"
	"time"
)

// Host has the facts about a host.
type Host struct {
	// UID of this process.
	UID int
	// Kernel release as in uname -r.
	Kernel string
	// Hostname as set in the kernel.
	Hostname string
	// Cgroups of the host.
	Cgroups Cgroups
	// Overlay reports whether the kernel has overlayfs or can load it.
	Overlay bool
	// BridgeNetfilter reports whether the kernel has br_netfilter or can load it.
	BridgeNetfilter bool
	// NFT is the version of the nft program, e.g. "1.0.6"; empty if it was not found on PATH.
	NFT string
	// Disk of the data directory.
	Disk Disk
	// Foreign are entries of the data directory that others created under names that regiond uses.
	Foreign []string
	// MemoryTotal and SwapTotal in bytes.
	MemoryTotal uint64
	SwapTotal   uint64
	// Interfaces with their addresses.
	Interfaces []Interface
	// Credentials whose file can't be used.
	Credentials []CredentialFault
	// NodeImage reports whether a node image has been built.
	NodeImage bool
	// Ports are the required ports that could not be bound.
	Ports []PortUse
	// Forwarding is net.ipv4.ip_forward; ForwardingWritable whether it can be enabled.
	Forwarding         bool
	ForwardingWritable bool
	// Now is the host's clock.
	Now time.Time
	// LastUse is when regiond last wrote to the data directory; zero if never.
	LastUse time.Time
	// Running is the regiond that holds the data directory now, nil if none does.
	Running *Process
}

// CredentialFault is a file of BMC credentials that can't be used.
type CredentialFault struct {
	// Name in spec.hardware.credentials.
	Name string
	// Fault names the file and says what to do.
	Fault string
}

// Cgroups is the control group hierarchy.
type Cgroups struct {
	// Version is 1 or 2, or 0 if no hierarchy is mounted at /sys/fs/cgroup.
	Version     int
	Controllers []string
}

// Disk is a mounted file system.
type Disk struct {
	// Path that was examined: the data directory or its nearest existing parent.
	Path string
	// Filesystem by its magic number, e.g. "overlayfs"; empty for ordinary ones.
	Filesystem string
	// Free bytes for root.
	Free uint64
	// HasData: the data directory is from an earlier start.
	HasData bool
}

// Interface is a network interface.
type Interface struct {
	Name      string
	Up        bool
	Addresses []netip.Prefix
}

// Port is a port that regiond or one of its components listens on.
type Port struct {
	// Network is "tcp4" or "udp4".
	Network string
	// Address to bind; 0.0.0.0 for all.
	Address netip.Addr
	Number  uint16
	// Device is the interface that the socket is bound to, empty for none.
	Device string
	// Purpose for people, e.g. "DHCP".
	Purpose string
}

// PortUse is a port that could not be bound.
type PortUse struct {
	Port Port
	// InUse: another socket uses it. Otherwise Err says why it could not be tested.
	InUse bool
	Err   string
	// Holder is the process that uses it, nil if that is not visible from here.
	Holder *Process
}

// Process is a process on the host.
type Process struct {
	PID  int
	Name string
	// Unit of systemd that the process belongs to, e.g. "dnsmasq.service"; empty for none.
	Unit string
	// Own: the process is regiond, or a component of it, on the same data directory.
	Own bool
}
