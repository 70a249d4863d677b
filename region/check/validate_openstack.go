package check

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"regiond.dev/regiond/region"
)

// openstack checks what OpenStack clusters share: names, addresses and hosts.
func (v *validator) openstack(written, r *region.Region) {
	clusters := v.uniqueNames("OpenStack cluster")
	profiles := &uniqueNames{v: v, noun: "profile", paths: map[string]string{}} // filled without add: hardware reports names given twice
	for i, p := range r.Spec.Hardware.Profiles {
		profiles.paths[p.Name] = fmt.Sprintf("spec.hardware.profiles[%d].name", i)
		profiles.names = append(profiles.names, p.Name)
		profiles.unclear = profiles.unclear || p.Name == ""
	}
	addresses, owners := map[netip.Addr]string{}, map[string]string{}
	all := r.Spec.OpenStack.Clusters
	for i, c := range all {
		at := fmt.Sprintf("spec.openstack.clusters[%d]", i)
		v.label(at+".name", c.Name)
		clusters.add(at+".name", c.Name)
		if c.PatchesDir != "" {
			v.absolute(at+".patchesDir", c.PatchesDir)
		}
		v.openstackAddress(at, written.Spec.OpenStack.Clusters[i].Address, c.Address, len(all) > 1, addresses)
		if len(c.Profiles) == 0 && len(all) > 1 {
			v.missing(at+".profiles", "the region has several OpenStack clusters, and no host can be in two", "list the hardware profiles of this cluster's hosts")
		}
		for j, name := range c.Profiles {
			path := fmt.Sprintf("%s.profiles[%d]", at, j)
			profiles.refer(path, name, "spec.hardware.profiles")
			if other, taken := owners[name]; taken {
				v.bad(path, name, "is already among the profiles of "+v.where(other), "give each host's profile to one cluster")
			}
			owners[name] = path
		}
		nodes := v.uniqueNames("node")
		for j, n := range c.Nodes {
			path := fmt.Sprintf("%s.nodes[%d].name", at, j)
			v.label(path, n.Name)
			nodes.add(path, n.Name)
		}
		v.physicalNetworks(at, c.PhysicalNetworks)
	}
}

func (v *validator) openstackAddress(at, written, address string, several bool, seen map[netip.Addr]string) {
	path := at + ".address"
	a, err := netip.ParseAddr(address)
	if err != nil {
		switch {
		case written != "":
			v.bad(path, written, "is not an IP address", "write an address of the seed host, e.g. 10.20.0.3")
		case several:
			v.missing(path, "the region has several OpenStack clusters, and each is served at its own address", "write an address of the seed host")
		}
		return
	}
	if other, taken := seen[a]; taken {
		v.bad(path, address, "is already the address of "+v.where(other), "give the seed host a second address in the provisioning network and write it here")
		return
	}
	seen[a] = path
}

func (v *validator) physicalNetworks(at string, networks []region.PhysicalNetwork) {
	names, interfaces := v.uniqueNames("physical network"), map[string]string{}
	for i, n := range networks {
		path := fmt.Sprintf("%s.physicalNetworks[%d]", at, i)
		names.add(path+".name", n.Name)
		if other, taken := interfaces[n.Interface]; taken && n.Interface != "" {
			v.bad(path+".interface", n.Interface, "is already the interface of "+v.where(other), "an interface can be a port of one bridge")
		}
		interfaces[n.Interface] = path + ".interface"
		if n.VLANs == "" {
			continue
		}
		first, last, ok := strings.Cut(n.VLANs, "-")
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if !ok || errA != nil || errB != nil || a < 1 || b > 4094 || a > b {
			v.bad(path+".vlans", n.VLANs, "is not a range of VLANs", `write "first-last" with 1 to 4094 (IEEE 802.1Q), e.g. 100-199`)
		}
	}
}
