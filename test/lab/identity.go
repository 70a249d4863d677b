package lab

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/google/uuid"

	"regiond.dev/regiond/test/lab/machine"
)

// Addresses of every lab. Labs do not see each other, so all of them may have the same.
var (
	provisioning = netip.MustParsePrefix("10.99.0.0/24")
	// SeedAddress is the seed host's in the provisioning network, where its API server listens.
	SeedAddress = netip.MustParseAddr("10.99.0.1")
	bmcNetwork  = netip.MustParsePrefix("10.98.0.0/24")
	seedBMC     = netip.MustParseAddr("10.98.0.1")
)

// bmcAddress of the i-th machine.
func bmcAddress(i int) netip.Addr { return host(bmcNetwork, i) }

// nodeAddress of the i-th machine, if it is a namespace, in the provisioning network. It lies outside of the range
// that regiond leases.
func nodeAddress(i int) netip.Addr { return host(provisioning, i) }

func host(network netip.Prefix, i int) netip.Addr {
	a := network.Addr().As4()
	a[3] = byte(11 + i)
	return netip.AddrFrom4(a)
}

func bmcAddressPort(i int) netip.AddrPort { return netip.AddrPortFrom(bmcAddress(i), ipmiPort) }

// identity of a machine, derived from the names of lab and machine so that it stays the same.
type identity uuid.UUID

func (l Lab) identity(i int) identity {
	return identity(uuid.NewSHA1(uuid.NameSpaceDNS, []byte(l.Spec.Machines[i].Name+"."+l.Name+".lab.regiond.dev")))
}

// machineUUID by which SMBIOS, or what stands for it, names the i-th machine.
func (l Lab) machineUUID(i int) string { return uuid.UUID(l.identity(i)).String() }

func (id identity) serialNumber() string { return fmt.Sprintf("LAB%X", id[:4]) }

func (id identity) diskSerialNumber(j int) string { return fmt.Sprintf("DISK%X-%d", id[:4], j) }

// Bridges of the rack.
const (
	provisioningBridge = "br-prov"
	dataBridge         = "br-data"
)

// Interfaces of every machine, by the names that the lab's profiles give them.
const (
	// bootInterface is in the provisioning network.
	bootInterface = "boot0"
	// dataInterface is in the data network, and left to Open vSwitch: it has no addresses.
	dataInterface = "data0"
)

// tapOf an interface: its other end, in the rack.
func tapOf(machine, nic string) string {
	if nic == dataInterface {
		return "dat-" + machine
	}
	return "tap-" + machine
}

// macAddress of an interface of the i-th machine: 02 in the first byte is locally administered (IEEE 802).
func (l Lab) macAddress(i int, nic string) string {
	id, network := l.identity(i), 0x99
	if nic == dataInterface {
		network = 0x9a
	}
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", network, id[0], id[1], id[2], i)
}

// machine is the i-th machine of the lab as QEMU's configuration.
func (l Lab) machine(i int) (machine.Config, error) {
	m := l.Spec.Machines[i]
	id := l.identity(i)
	memory, err := l.Spec.memory(m)
	if err != nil {
		return machine.Config{}, err
	}
	disks := m.Disks
	if len(disks) == 0 {
		disks = []string{defaultDisk}
	}
	c := machine.Config{
		Name:         m.Name,
		Dir:          filepath.Join(l.dir(), "machines", m.Name),
		UUID:         l.machineUUID(i),
		SerialNumber: id.serialNumber(),
		Firmware:     m.firmware(),
		CPUs:         cmp.Or(m.CPUs, 2),
		Memory:       int(memory >> 20),
		MACAddress:   l.macAddress(i, bootInterface),
		Tap:          tapOf(m.Name, bootInterface),
		Data:         machine.NIC{MACAddress: l.macAddress(i, dataInterface), Tap: tapOf(m.Name, dataInterface)},
		OVMF:         "/usr/share/OVMF",
	}
	for j, d := range disks {
		size, err := quantity(d, defaultDisk)
		if err != nil {
			return machine.Config{}, err
		}
		c.Disks = append(c.Disks, machine.Disk{SerialNumber: id.diskSerialNumber(j), Bytes: size})
	}
	return c, nil
}
