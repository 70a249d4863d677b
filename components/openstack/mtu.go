package openstack

import (
	"fmt"
	"slices"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// ethernetMTU is the drivers' default for a link without an mtu in the region file (RFC 894).
const ethernetMTU = 1500

// tunnelsOf names the tunnels of VXLAN in messages.
const tunnelsOf = "VXLAN tunnels"

// mtus compares the MTU that Neutron assumes for physical networks and tunnels with that of their
// links. Frames larger than a link's MTU are dropped silently, and the problem stays hidden because
// small ones get through. The links of a profile without a network are unknown.
func (c *Composer) mtus(doc *check.Document, r *region.Region, d *region.OpenStackDeclaration, field string) (problems check.Problems) {
	values, _, err := c.source.Values(configgen.Cluster{Declaration: d, Region: r.Name, Field: field})
	if err != nil {
		return nil // reported by the check of values
	}
	want := mtuOf(values)
	for i, p := range r.Spec.Hardware.Profiles {
		if p.Role != region.RoleCompute || p.Network == nil || len(d.Profiles) > 0 && !slices.Contains(d.Profiles, p.Name) {
			continue
		}
		told := map[string]bool{}
		need := func(what string, l link, found bool) {
			if mtu := l.mtu(); !found || told[l.name] || mtu >= want {
				return
			}
			told[l.name] = true
			at := fmt.Sprintf("spec.hardware.profiles[%d].network.%s", i, l.at)
			problem := doc.ProblemAt(at+".mtu", fmt.Sprintf("%d is less than the %d bytes that cluster %s assumes for %s on %s "+
				"(neutron.global_physnet_mtu): larger frames would be lost", l.mtu(), want, d.Name, what, l.name))
			if l.declared == 0 {
				problem = doc.ProblemAt(at+".name", fmt.Sprintf("%s has no mtu, which usually means %d, and cluster %s assumes %[5]d bytes for %[4]s on it "+
					"(neutron.global_physnet_mtu): larger frames would be lost", l.name, ethernetMTU, d.Name, what, want))
				problem.Warning = true // the driver's default may differ
			}
			problem.Suggestion = fmt.Sprintf("set mtu: %d here, and at least as much on the switches, or change neutron.global_physnet_mtu", want)
			problems = append(problems, problem)
		}
		for _, n := range d.PhysicalNetworks {
			l, found := linkNamed(p.Network, n.Interface)
			need("physical network "+n.Name, l, found)
		}
		if enabled, _ := values.Lookup("neutron.vxlan.enabled"); enabled == true {
			l, found := tunnelLink(p.Network, values)
			need(tunnelsOf, l, found)
		}
	}
	return problems
}

// mtuOf returns the MTU of the physical networks, which also limits packets that carry a tunnelled
// frame.
func mtuOf(values *configgen.Values) int64 {
	for _, path := range []string{"neutron.conf.DEFAULT.global_physnet_mtu", "neutron.global_physnet_mtu"} {
		if v, ok := values.Lookup(path); ok {
			if n, isNumber := v.(int64); isNumber {
				return n
			}
		}
	}
	return 0
}

// link is an interface or a bond of a profile.
type link struct {
	name string
	// at is its path below the profile's network.
	at       string
	declared int32
}

func (l link) mtu() int64 {
	if l.declared == 0 {
		return ethernetMTU
	}
	return int64(l.declared)
}

func linkNamed(n *region.HostNetwork, name string) (link, bool) {
	for i, b := range n.Bonds {
		if b.Name == name {
			return link{name, fmt.Sprintf("bonds[%d]", i), b.MTU}, true
		}
	}
	for i, f := range n.Interfaces {
		if f.Name == name {
			return link{name, fmt.Sprintf("interfaces[%d]", i), f.MTU}, true
		}
	}
	return link{}, false
}

// tunnelLink returns the link with the host's address in the provisioning network: the interface it
// boots from, or the bond over it. If tunnels have an address of their own, the link is unknown.
func tunnelLink(n *region.HostNetwork, values *configgen.Values) (link, bool) {
	if own, _ := values.Lookup("neutron.vxlan.local_address"); own != "" {
		return link{}, false
	}
	i := slices.IndexFunc(n.Interfaces, func(f region.Interface) bool { return f.Match.Boot })
	if i < 0 {
		return link{}, false
	}
	name := n.Interfaces[i].Name
	if b := slices.IndexFunc(n.Bonds, func(b region.Bond) bool { return slices.Contains(b.Interfaces, name) }); b >= 0 {
		name = n.Bonds[b].Name
	}
	return linkNamed(n, name)
}
