// Package lab is a region on one machine: a seed host in its own namespaces and virtual servers
// with real BMC protocols, disks and firmware. Nothing of regiond knows that it runs in a lab.
package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
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
	// OpenStack that the lab's machines are the compute hosts of. Absent: the region ends with its servers.
	OpenStack *OpenStackSpec `json:"openstack,omitempty"`
}

// OpenStackSpec is the lab's OpenStack cluster.
type OpenStackSpec struct {
	// Release, default epoxy.
	Release region.OpenStackRelease `json:"release,omitempty"`
}

// MachineKind is what a machine is made of.
type MachineKind string

// Kinds of machines.
const (
	// KindVM is a virtual server that regiond discovers, netboots and installs.
	KindVM MachineKind = "vm"
	// KindNamespace is an installed node without a machine: the same image's root file system and the same agent,
	// in namespaces of this kernel. It has no BMC and isn't netbooted; it is there in seconds.
	KindNamespace MachineKind = "namespace"
)

// MachineSpec is a virtual server.
type MachineSpec struct {
	// Name of the machine, a DNS label of at most 10 bytes (its tap device is "tap-" + name).
	Name string `json:"name"`
	// Kind is vm (default) or namespace. All that follows is of a vm only.
	Kind MachineKind `json:"kind,omitempty"`
	// Firmware is UEFI (default) or BIOS.
	Firmware inventory.FirmwareMode `json:"firmware,omitempty"`
	// CPUs, default 2.
	CPUs int `json:"cpus,omitempty"`
	// Memory, default 2Gi, with OpenStack 3Gi.
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

// Choose returns the lab of a name: as file has it, or without one as it was brought up before, or
// else Default.
func Choose(root, name, file string) (Lab, error) {
	l := Lab{Name: name, Root: root}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return l, err
		}
		l.Spec, err = ParseConfig(b, file)
		return l, errors.Join(err, CheckName(name))
	}
	if l, err := Open(root, name); err == nil {
		return l, nil
	}
	l.Spec = Default()
	return l, CheckName(name)
}

// Release of the lab's OpenStack, empty if it has none.
func (s Spec) Release() region.OpenStackRelease {
	if s.OpenStack == nil {
		return ""
	}
	return cmp.Or(s.OpenStack.Release, region.ReleaseEpoxy)
}

// Default is the lab without a lab.yaml: OpenStack with two compute hosts, which are servers with UEFI.
func Default() Spec {
	return Spec{Machines: []MachineSpec{{Name: "node1"}, {Name: "node2"}}, OpenStack: &OpenStackSpec{Release: region.ReleaseEpoxy}}
}

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
	if o := s.OpenStack; o != nil && o.Release != "" && o.Release != region.ReleaseEpoxy && o.Release != region.ReleaseGazpacho {
		return fmt.Errorf("spec.openstack.release: %q: want %s or %s", o.Release, region.ReleaseEpoxy, region.ReleaseGazpacho)
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
		switch {
		case m.Kind != "" && m.Kind != KindVM && m.Kind != KindNamespace:
			return fmt.Errorf("%s.kind: %q: want %s or %s", at, m.Kind, KindVM, KindNamespace)
		case m.Kind == KindNamespace && (m.Firmware != "" || m.CPUs != 0 || m.Memory != "" || m.Disks != nil):
			return fmt.Errorf("%s: a namespace has no firmware, CPUs, memory or disks of its own: leave them out", at)
		}
		if f := m.firmware(); f != inventory.FirmwareUEFI && f != inventory.FirmwareBIOS {
			return fmt.Errorf("%s.firmware: %q: want UEFI or BIOS", at, f)
		}
		if m.CPUs < 0 || m.CPUs > 64 {
			return fmt.Errorf("%s.cpus: %d: want 1 to 64", at, m.CPUs)
		}
		if _, err := s.memory(m); err != nil {
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
	// A compute host runs Open vSwitch, libvirt, nova-compute and Neutron's agents (about 700 MB) beside a guest that
	// is emulated.
	defaultComputeMemory = "3Gi"
	defaultDisk          = "12Gi"
)

func (s Spec) memory(m MachineSpec) (int64, error) {
	if s.OpenStack != nil {
		return quantity(m.Memory, defaultComputeMemory)
	}
	return quantity(m.Memory, defaultMemory)
}

func quantity(s, def string) (int64, error) {
	if s == "" {
		s = def
	}
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() <= 0 {
		return 0, fmt.Errorf("%q is not a size, e.g. 2Gi", s)
	}
	return q.Value(), nil
}

// VM tells whether the machine is a virtual server.
func (m MachineSpec) VM() bool { return m.Kind != KindNamespace }

func (m MachineSpec) firmware() inventory.FirmwareMode {
	return cmp.Or(m.Firmware, inventory.FirmwareUEFI)
}
