package inventory

import (
	"io/fs"
	"net"
	"path"
	"regexp"
	"strings"
)

// Values of /sys/class/net/*/type (linux/if_arp.h). InfiniBand (32) has addresses of 20 bytes, which
// are nobody's MAC.
const arphrdEther = "1"

// pciAddress is domain:bus:device.function.
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// NICs lists the Ethernet interfaces of hardware: no virtual ones, no SR-IOV functions, and nothing
// on USB, where BMCs show an interface that has the same MAC address on every machine.
func (r Reader) NICs() ([]NIC, error) {
	names, err := r.names("class/net")
	if err != nil {
		return nil, err
	}
	var nics []NIC
	for _, name := range names {
		folder := path.Join("class/net", name)
		if !r.exists(path.Join(folder, "device")) || r.exists(path.Join(folder, "device/physfn")) ||
			r.text(path.Join(folder, "type")) != arphrdEther || r.base(path.Join(folder, "device/subsystem")) == "usb" {
			continue
		}
		address := r.macAddress(name)
		if address == "" {
			continue
		}
		nics = append(nics, NIC{
			Name: name, MACAddress: address,
			Driver: r.base(path.Join(folder, "device/driver")), PCIAddress: r.pciAddress(folder),
			LinkUp: r.text(path.Join(folder, "carrier")) == "1", SpeedMbps: int32(max(0, r.number(path.Join(folder, "speed")))),
		})
	}
	return nics, nil
}

func (r Reader) macAddress(name string) string {
	if r.PermanentMAC != nil {
		if address, err := r.PermanentMAC(name); err == nil && len(address) == 6 {
			return address.String()
		}
	}
	address, err := net.ParseMAC(r.text(path.Join("class/net", name, "address")))
	if err != nil || len(address) != 6 {
		return ""
	}
	return address.String()
}

// pciAddress is the nearest PCI device on the way to the interface, e.g. 0000:03:00.1 in
// ../../devices/pci0000:00/0000:00:1c.0/0000:03:00.1/net/eth1.
func (r Reader) pciAddress(folder string) string {
	target, err := fs.ReadLink(r.Sys, folder)
	if err != nil {
		return ""
	}
	elements := strings.Split(target, "/")
	for i := len(elements) - 1; i >= 0; i-- {
		if pciAddress.MatchString(elements[i]) {
			return elements[i]
		}
	}
	return ""
}

// MarkBoot marks the interface that netbooted.
func (inv *Inventory) MarkBoot(macAddress string) {
	for i := range inv.NICs {
		inv.NICs[i].Boot = strings.EqualFold(inv.NICs[i].MACAddress, macAddress)
	}
}

// Meet adds neighbours, by the MAC address of the interface on which they were heard.
func (inv *Inventory) Meet(neighbours map[string]LLDPNeighbour) {
	for i := range inv.NICs {
		if neighbour, ok := neighbours[inv.NICs[i].MACAddress]; ok {
			inv.NICs[i].LLDP = &neighbour
		}
	}
}
