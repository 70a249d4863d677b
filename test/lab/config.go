// Package lab is a region on one machine: a seed host in its own namespaces and virtual servers
// with real BMC protocols, disks and firmware. Nothing of regiond knows that it runs in a lab.
package lab

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/hardware/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/machine"
)

// DefaultRoot is where labs keep their state, a folder each.
const DefaultRoot = "/var/lib/regiond-lab"

// Config of a lab, as in lab.yaml.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       Spec   `json:"spec"`
}

// Spec is what a lab is made of.
type Spec struct {
	Machines []MachineSpec `json:"machines"`
}

// MachineSpec is a virtual server.
type MachineSpec struct {
	// Name of the machine, a DNS label of at most 10 bytes (its tap device is "tap-" + name).
	Name string `json:"name"`
	// Firmware is UEFI (default) or BIOS.
	Firmware inventory.FirmwareMode `json:"firmware,omitempty"`
	// CPUs, default 2.
	CPUs int `json:"cpus,omitempty"`
	// Memory, default 2Gi.
	Memory string `json:"memory,omitempty"`
	// Disks by size, default one of 12Gi.
	Disks []string `json:"disks,omitempty"`
}

// Lab is one named lab.
type Lab struct {
	Name string
	// Root of all labs' state, default DefaultRoot.
	Root string
	Spec Spec
}

// Default is the lab without a lab.yaml: one server with UEFI.
func Default() Spec { return Spec{Machines: []MachineSpec{{Name: "node1"}}} }

var (
	labName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`)
	machineName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,8}[a-z0-9])?$`)
)

// CheckName of a lab.
func CheckName(name string) error {
	if !labName.MatchString(name) {
		return fmt.Errorf("lab name %q: at most 20 of a-z, 0-9 and '-', not '-' at either end", name)
	}
	return nil
}

// ParseConfig reads lab.yaml, strictly.
func ParseConfig(data []byte, file string) (Spec, error) {
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", file, err)
	}
	if c.APIVersion != region.GroupVersion.String() || c.Kind != "Lab" {
		return Spec{}, fmt.Errorf("%s: apiVersion %q, kind %q: want %q, \"Lab\"", file, c.APIVersion, c.Kind, region.GroupVersion)
	}
	if err := c.Spec.check(); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", file, err)
	}
	return c.Spec, nil
}

func (s Spec) check() error {
	if n := len(s.Machines); n < 1 || n > 64 {
		return fmt.Errorf("spec.machines: %d machines: want 1 to 64", n)
	}
	seen := map[string]bool{}
	for i, m := range s.Machines {
		at := fmt.Sprintf("spec.machines[%d]", i)
		if !machineName.MatchString(m.Name) {
			return fmt.Errorf("%s.name: %q: want a letter, then at most 9 of a-z, 0-9 and '-'", at, m.Name)
		}
		if seen[m.Name] {
			return fmt.Errorf("%s.name: %q is there twice", at, m.Name)
		}
		seen[m.Name] = true
		if f := m.firmware(); f != inventory.FirmwareUEFI && f != inventory.FirmwareBIOS {
			return fmt.Errorf("%s.firmware: %q: want UEFI or BIOS", at, f)
		}
		if m.CPUs < 0 || m.CPUs > 64 {
			return fmt.Errorf("%s.cpus: %d: want 1 to 64", at, m.CPUs)
		}
		if _, err := quantity(m.Memory, defaultMemory); err != nil {
			return fmt.Errorf("%s.memory: %w", at, err)
		}
		for j, d := range m.Disks {
			if _, err := quantity(d, defaultDisk); err != nil {
				return fmt.Errorf("%s.disks[%d]: %w", at, j, err)
			}
		}
	}
	return nil
}

const (
	defaultMemory = "2Gi"
	defaultDisk   = "12Gi"
)

func quantity(s, def string) (int64, error) {
	if s == "" {
		s = def
	}
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() <= 0 {
		return 0, fmt.Errorf("%q is no size: want e.g. 2Gi", s)
	}
	return q.Value(), nil
}

func (m MachineSpec) firmware() inventory.FirmwareMode {
	return cmp.Or(m.Firmware, inventory.FirmwareUEFI)
}

// Addresses of every lab. Labs do not see each other, so all of them may have the same.
var (
	provisioning = netip.MustParsePrefix("10.99.0.0/24")
	seedAddress  = netip.MustParseAddr("10.99.0.1")
	bmcNetwork   = netip.MustParsePrefix("10.98.0.0/24")
	seedBMC      = netip.MustParseAddr("10.98.0.1")
)

// bmcAddress of the i-th machine.
func bmcAddress(i int) netip.Addr {
	a := bmcNetwork.Addr().As4()
	a[3] = byte(11 + i)
	return netip.AddrFrom4(a)
}

func bmcAddressPort(i int) netip.AddrPort { return netip.AddrPortFrom(bmcAddress(i), ipmiPort) }

// identity of a machine, derived from the names of lab and machine so that it stays the same.
type identity uuid.UUID

func (l Lab) identity(i int) identity {
	return identity(uuid.NewSHA1(uuid.NameSpaceDNS, []byte(l.Spec.Machines[i].Name+"."+l.Name+".lab.regiond.dev")))
}

func (id identity) serialNumber() string { return fmt.Sprintf("LAB%X", id[:4]) }

func (id identity) diskSerialNumber(j int) string { return fmt.Sprintf("DISK%X-%d", id[:4], j) }

// machine is the i-th machine of the lab as QEMU's configuration.
func (l Lab) machine(i int) (machine.Config, error) {
	m := l.Spec.Machines[i]
	id := l.identity(i)
	memory, err := quantity(m.Memory, defaultMemory)
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
		UUID:         uuid.UUID(id).String(),
		SerialNumber: id.serialNumber(),
		Firmware:     m.firmware(),
		CPUs:         cmp.Or(m.CPUs, 2),
		Memory:       int(memory >> 20),
		// 02 in the first byte: locally administered (IEEE 802).
		MACAddress: fmt.Sprintf("02:99:%02x:%02x:%02x:%02x", id[0], id[1], id[2], i),
		Tap:        "tap-" + m.Name,
		OVMF:       "/usr/share/OVMF",
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
