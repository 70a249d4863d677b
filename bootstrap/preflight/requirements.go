package preflight

import (
	"fmt"
	"net/netip"

	"regiond.dev/regiond/region"
)

// Minimum requirements of a seed host.
const (
	// MinMemory in bytes: the control plane alone uses about 700 MB.
	MinMemory = 2 << 30
	// MinDisk in bytes: etcd's quota of 2 GiB with its snapshots, logs, and container images.
	MinDisk = 10 << 30
)

// Requirements are a region's requirements of its seed host.
type Requirements struct {
	DataDir      string
	Management   netip.Addr
	Provisioning netip.Addr
	// Interface that DHCP is served on; empty for the one that has Provisioning.
	Interface string
	// ImageDir is the images folder.
	ImageDir string
	Ports    []Port
}

// RequirementsOf derives the requirements from a validated region with defaults filled in.
func RequirementsOf(r *region.Region) (Requirements, error) {
	p := r.Spec.Networks.Provisioning
	w := Requirements{DataDir: r.Spec.ControlPlane.DataDir, Interface: p.Interface, ImageDir: r.Spec.Images.Dir}
	var err error
	if w.Provisioning, err = netip.ParseAddr(p.Address); err != nil {
		return Requirements{}, fmt.Errorf("spec.networks.provisioning.address: %w", err)
	}
	w.Management = w.Provisioning
	if m := r.Spec.Networks.Management; m != nil {
		if w.Management, err = netip.ParseAddr(m.Address); err != nil {
			return Requirements{}, fmt.Errorf("spec.networks.management.address: %w", err)
		}
	}
	w.Ports = ports(w)
	return w, nil
}

func ports(w Requirements) []Port {
	all, loopback := netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{127, 0, 0, 1})
	return []Port{
		{"udp4", all, 67, w.Interface, "DHCP"},
		{"udp4", w.Provisioning, 69, "", "TFTP"},
		{"tcp4", w.Provisioning, 80, "", "netboot over HTTP"},
		{"tcp4", w.Provisioning, 7443, "", "the enrollment API"},
		{"tcp4", w.Management, 6443, "", "the Kubernetes API"},
		{"tcp4", w.Management, 5443, "", "the registry of component images"},
		{"tcp4", loopback, 2379, "", "etcd"},
		{"tcp4", loopback, 2380, "", "etcd's peers"},
		{"tcp4", w.Management, 10250, "", "the kubelet"},
		{"tcp4", loopback, 10248, "", "the kubelet's health"},
		{"tcp4", loopback, 10249, "", "kube-proxy's metrics"},
		{"tcp4", loopback, 10256, "", "kube-proxy's health"},
		{"tcp4", loopback, 10257, "", "the controller manager"},
		{"tcp4", loopback, 10259, "", "the scheduler"},
		{"tcp4", loopback, 9440, "", "metrics"},
	}
}
