package check

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"regiond.dev/regiond/region"
)

// CheckDeclaration reports what validate, plan and apply refuse beyond what Load does: rules that
// came after regions had been declared without them. A region that runs starts with what it has, so
// that a start only warns of them, and an upgrade with an unchanged file does not end its seed
// host. A new rule belongs here and not in Load, unless starting would be unsafe. That is so for
// the bounds of aliases (bounds.go): a file beyond them exhausts the seed host's memory before
// anything is known of it.
func (d *Document) CheckDeclaration() Problems {
	r := d.Region.DeepCopy()
	region.Default(r)
	known := &validator{file: d.Name, index: d.index}
	known.networks(d.Region, r)
	known.hardware(r)
	v := &validator{file: d.Name, index: d.index, seeds: known.seeds, static: known.static, provisioning: known.provisioning}
	v.plainNames(r)
	for i, c := range r.Spec.OpenStack.Clusters {
		at := fmt.Sprintf("spec.openstack.clusters[%d]", i)
		if i < len(d.Region.Spec.OpenStack.Clusters) && d.Region.Spec.OpenStack.Clusters[i].Address != "" {
			v.servedAt(at+".address", c.Address, r.Spec.Networks)
		}
		v.bridges(at, c.PhysicalNetworks)
		v.uplinks(at, r.Spec.Hardware, c)
	}
	return v.problems
}

// plainNames checks the names of all interfaces and bonds that Load takes.
func (v *validator) plainNames(r *region.Region) {
	v.plainName(provisioningPath+".interface", r.Spec.Networks.Provisioning.Interface)
	for i, p := range r.Spec.Hardware.Profiles {
		if p.Network == nil {
			continue
		}
		at := fmt.Sprintf("%s.profiles[%d].network", hardwarePath, i)
		for j, n := range p.Network.Interfaces {
			v.plainName(fmt.Sprintf("%s.interfaces[%d].name", at, j), n.Name)
		}
		for j, b := range p.Network.Bonds {
			v.plainName(fmt.Sprintf("%s.bonds[%d].name", at, j), b.Name)
		}
	}
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// plainName checks that the name of an interface means nothing else to what reads configuration:
// the kernel takes more.
func (v *validator) plainName(path, name string) {
	if message, _ := notInterfaceName(name); name == "" || message != "" { // Load has said it
		return
	}
	if !plainName.MatchString(name) {
		v.bad(path, name, "is not an interface name", nameCharacters)
	}
}

// bridges checks the names of physical networks, whose bridges have them, and of the bridges'
// ports.
func (v *validator) bridges(at string, networks []region.PhysicalNetwork) {
	for i, n := range networks {
		path := fmt.Sprintf("%s.physicalNetworks[%d]", at, i)
		if n.Name == "int" || n.Name == "tun" {
			v.bad(path+".name", n.Name, "is reserved: br-"+n.Name+" is the name of Neutron's own bridge", "choose another name, e.g. physnet1")
		}
		if v.interfaceName(path+".interface", n.Interface) {
			v.plainName(path+".interface", n.Interface)
		}
	}
}

// servedAt checks where a cluster is served: passwords go there in clear, so that it must be an
// address of the seed host, or one that moves between control hosts, in a network that the region
// declares.
func (v *validator) servedAt(path, address string, n region.Networks) {
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
	first, last, err := region.ParseRange(n.Provisioning.DHCP.Range)
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

// uplinks checks that the hosts have the interfaces of the physical networks. What a profile
// without a network has is not known.
func (v *validator) uplinks(at string, h region.Hardware, c region.OpenStackDeclaration) {
	for i, n := range c.PhysicalNetworks {
		path := fmt.Sprintf("%s.physicalNetworks[%d].interface", at, i)
		for j, p := range h.Profiles {
			of := len(c.Profiles) == 0 || slices.Contains(c.Profiles, p.Name)
			if p.Network == nil || !of || n.Interface == "" || p.Role != region.RoleCompute {
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

// uplinkOf says why a link of a host can't be the port of a bridge, "" if it can. names are all
// links.
func uplinkOf(network *region.HostNetwork, name string) (names []string, why string) {
	links := map[string]region.AddressConfig{}
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
