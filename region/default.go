package region

import (
	"time"

	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
)

// Defaults of region.yaml.
const (
	DefaultPodCIDR     = "10.42.0.0/16"
	DefaultServiceCIDR = "10.43.0.0/16"
	DefaultDataDir     = "/var/lib/regiond"
	DefaultImagesDir   = "/var/cache/regiond/images"
	DefaultNodeImage   = "trixie"
	DefaultLeaseTime   = time.Hour
	// DefaultBackupSchedule and DefaultBackupCount hold where backups are declared.
	DefaultBackupSchedule = "24h"
	DefaultBackupCount    = 14
	// DefaultBMCPort is RMCP's primary port (IPMI v2.0 rev 1.1, section 13.1.2; ASF).
	DefaultBMCPort = 623
)

// Default fills in every documented default that does not depend on the seed host. What is set is
// left alone, so that it can be called again.
//
// Two defaults are not values: a provisioning network without an interface uses the one that has
// its address, and a profile without a network means DHCP on the interface that netbooted.
func Default(r *Region) {
	r.APIVersion, r.Kind = GroupVersion.String(), KindRegion
	n := &r.Spec.Networks
	if n.Provisioning.DHCP.LeaseTime == nil {
		n.Provisioning.DHCP.LeaseTime = &metav1.Duration{Duration: DefaultLeaseTime}
	}
	if n.Management == nil {
		management := n.Provisioning.Network
		n.Management = &management
	}
	set(&r.Spec.ControlPlane.PodCIDR, DefaultPodCIDR)
	set(&r.Spec.ControlPlane.ServiceCIDR, DefaultServiceCIDR)
	set(&r.Spec.ControlPlane.DataDir, DefaultDataDir)
	set(&r.Spec.Images.Node, DefaultNodeImage)
	set(&r.Spec.Images.Dir, DefaultImagesDir)

	h := &r.Spec.Hardware
	for i := range h.Discovery {
		set(&h.Discovery[i].Port, DefaultBMCPort)
	}
	for i := range h.Servers {
		DefaultBMC(&h.Servers[i].BMC)
	}
	for i := range h.Profiles {
		defaultProfile(&h.Profiles[i])
	}
	if b := r.Spec.Backup; b != nil {
		set(&b.Schedule, DefaultBackupSchedule)
		if b.Keep.Days == 0 {
			set(&b.Keep.Count, DefaultBackupCount)
		}
	}
	for i := range r.Spec.OpenStack.Clusters {
		c := &r.Spec.OpenStack.Clusters[i]
		set(&c.Release, ReleaseEpoxy)
		if len(r.Spec.OpenStack.Clusters) == 1 { // two clusters can't have one address
			set(&c.Address, n.Provisioning.Address)
		}
	}
}

// DefaultBMC fills in the defaults of a BMC, those of a Server object too.
func DefaultBMC(b *BMCEndpoint) {
	set(&b.Port, DefaultBMCPort)
	set(&b.Protocol, ProtocolIPMI)
}

func defaultProfile(p *Profile) {
	set(&p.Role, RoleCompute)
	set(&p.Firmware, inventory.FirmwareUEFI)
	if p.Network == nil {
		return
	}
	for i := range p.Network.Bonds {
		b := &p.Network.Bonds[i]
		lacp := nethelpers.BondMode8023AD.String()
		set(&b.Mode, lacp)
		if b.Mode == lacp {
			set(&b.LACPRate, nethelpers.LACPRateSlow.String())
			set(&b.XmitHashPolicy, nethelpers.BondXmitPolicyLayer34.String())
		}
	}
}

// set gives *field a value if it has none.
func set[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}
