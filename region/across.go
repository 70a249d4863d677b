package region

import (
	"fmt"
	"net/netip"
	"slices"
)

// CheckAcross reports what does not go together in a file, beyond what Load refuses: a region that runs may have been declared with it,
// and must start all the same.
func (d *Document) CheckAcross() Problems {
	r := d.Region.DeepCopy()
	Default(r)
	known := &validator{file: d.Name, index: d.index}
	known.networks(d.Region, r)
	known.hardware(r)
	v := &validator{file: d.Name, index: d.index, seeds: known.seeds, static: known.static, provisioning: known.provisioning}
	for i, c := range r.Spec.OpenStack.Clusters {
		at := fmt.Sprintf("spec.openstack.clusters[%d]", i)
		if i < len(d.Region.Spec.OpenStack.Clusters) && d.Region.Spec.OpenStack.Clusters[i].Address != "" {
			v.servedAt(at+".address", c.Address, r.Spec.Networks)
		}
		v.uplinks(at, r.Spec.Hardware, c)
	}
	return v.problems
}

// servedAt checks where a cluster is served: passwords go there in clear, so that it must be an address of the seed host, or one that
// moves between control hosts, in a network that the region declares.
func (v *validator) servedAt(path, address string, n Networks) {
	const advice = "write the seed host's address in the provisioning network, or another one that it has there or in the management network"
	a, err := netip.ParseAddr(address)
	if err != nil || !v.provisioning.IsValid() { // Load has said it
		return
	}
	if of := v.seeds.seen[a]; of == provisioningPath+".address" || of == managementPath+".address" {
		return
	}
	in := v.provisioning
	if management, err := netip.ParsePrefix(n.Management.CIDR); err == nil && management.Contains(a) {
		in = management
	}
	first, last, err := ParseRange(n.Provisioning.DHCP.Range)
	switch {
	case !in.Contains(a):
		v.bad(path, address, "is neither in the provisioning nor in the management network", advice)
	case notAHost(a, in) != "":
		v.bad(path, address, fmt.Sprintf("is %s of %s", notAHost(a, in), in), advice)
	case v.static.seen[a] != "":
		v.bad(path, address, "is already given at "+v.where(v.static.seen[a]), advice)
	case err == nil && (addressRange{first, last}).contains(a):
		v.bad(path, address, "is leased to servers, by "+v.where(provisioningPath+".dhcp.range"), advice)
	}
}

// uplinks checks that the hosts have the interfaces of the physical networks. What a profile without a network has is not known.
func (v *validator) uplinks(at string, h Hardware, c OpenStackDeclaration) {
	for i, n := range c.PhysicalNetworks {
		path := fmt.Sprintf("%s.physicalNetworks[%d].interface", at, i)
		for j, p := range h.Profiles {
			of := len(c.Profiles) == 0 || slices.Contains(c.Profiles, p.Name)
			if p.Network == nil || !of || n.Interface == "" || p.Role != RoleCompute {
				continue
			}
			profile := fmt.Sprintf("%s (%s)", quote(p.Name), v.where(fmt.Sprintf("%s.profiles[%d].network", hardwarePath, j)))
			names, why := uplinkOf(p.Network, n.Interface)
			switch {
			case why == "":
			case why == absent:
				v.bad(path, n.Interface, "is not an interface or a bond of the profile "+profile,
					orElse(didYouMean(n.Interface, names, "interface"), "add it to the profile's network, without addresses"))
			default:
				v.bad(path, n.Interface, fmt.Sprintf("%s in the profile %s", why, profile), "a bridge takes an interface of its own, without addresses")
			}
		}
	}
}

const absent = "is not there"

// uplinkOf says why a link of a host can't be the port of a bridge, "" if it can. names are all links.
func uplinkOf(network *HostNetwork, name string) (names []string, why string) {
	links := map[string]AddressConfig{}
	for _, i := range network.Interfaces {
		names, links[i.Name] = append(names, i.Name), i.AddressConfig
	}
	for _, b := range network.Bonds {
		names, links[b.Name] = append(names, b.Name), b.AddressConfig
		if slices.Contains(b.Interfaces, name) {
			return names, "is a member of the bond " + b.Name
		}
	}
	link, found := links[name]
	switch {
	case !found:
		return names, absent
	case link.DHCP || len(link.Addresses) > 0:
		return names, "has addresses"
	}
	return names, ""
}
