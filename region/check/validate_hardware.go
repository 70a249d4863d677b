package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"regiond.dev/regiond/region"
)

const hardwarePath = "spec.hardware"

// hardware checks what is found, how it is opened and what it becomes.
func (v *validator) hardware(r *region.Region) {
	h := r.Spec.Hardware
	credentials := v.uniqueNames("credential")
	credentials.unclear = v.hidden(hardwarePath+".credentials", len(h.Credentials))
	for i, c := range h.Credentials {
		path := fmt.Sprintf("%s.credentials[%d]", hardwarePath, i)
		v.label(path+".name", c.Name)
		credentials.add(path+".name", c.Name)
		v.absolute(path+".file", c.File)
	}
	profiles := v.uniqueNames("profile")
	profiles.unclear = v.hidden(hardwarePath+".profiles", len(h.Profiles))
	for i, p := range h.Profiles {
		path := fmt.Sprintf("%s.profiles[%d]", hardwarePath, i)
		v.label(path+".name", p.Name)
		profiles.add(path+".name", p.Name)
	}

	v.servers(h.Servers, credentials, profiles)
	v.discovery(h.Discovery, credentials)
	v.reachable(h)
	for i, p := range h.Profiles {
		v.profile(fmt.Sprintf("%s.profiles[%d]", hardwarePath, i), p)
	}
	v.dhcpRange(r.Spec.Networks.Provisioning.DHCP)
}

// hidden says that a list is written but could not be understood. What refers to its items is
// then not called wrong.
func (v *validator) hidden(path string, items int) bool {
	return items == 0 && v.index.written(path)
}

// servers checks the servers known beforehand.
func (v *validator) servers(servers []region.StaticServer, credentials, profiles *uniqueNames) {
	names := v.uniqueNames("server")
	bmcs := map[netip.AddrPort]int{}
	macs := map[string]string{} // to the path of the first
	for i, s := range servers {
		path := fmt.Sprintf("%s.servers[%d]", hardwarePath, i)
		v.label(path+".name", s.Name)
		names.add(path+".name", s.Name)
		profiles.refer(path+".profile", s.Profile, hardwarePath+".profiles")
		credentials.refer(path+".bmc.credentials", s.BMC.Credentials, hardwarePath+".credentials")
		for k, m := range s.MACAddresses {
			at, key := fmt.Sprintf("%s.macAddresses[%d]", path, k), strings.ToLower(m)
			if first, found := macs[key]; found {
				v.bad(at, m, "is listed twice, first at "+v.where(first), "a NIC belongs to one server; remove one of the two")
				continue
			}
			macs[key] = at
		}

		address, ok := v.bmcAddress(path+".bmc.address", s.BMC.Address)
		if !ok {
			continue
		}
		endpoint := netip.AddrPortFrom(address, uint16(s.BMC.Port)) // the schema bounds it
		if first, found := bmcs[endpoint]; found {
			v.bad(path+".bmc.address", s.BMC.Address,
				fmt.Sprintf("port %d is already the BMC of the server %s, %s", s.BMC.Port, quote(servers[first].Name),
					v.where(fmt.Sprintf("%s.servers[%d].bmc.address", hardwarePath, first))),
				"each server has its own BMC; remove one of the two or correct its address")
			continue
		}
		bmcs[endpoint] = i
		v.static.add(path+".bmc.address", address)
	}
}

// bmcAddress parses the address of a BMC.
func (v *validator) bmcAddress(path, s string) (netip.Addr, bool) {
	if s == "" {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil || a.Zone() != "":
		v.bad(path, s, "is not an IP address", meant(betterAddress(s), "write it like 10.30.0.11"))
		return a, false
	case a.IsUnspecified() || a.IsMulticast():
		v.bad(path, s, "is not the address of a single host", "give the address of the BMC")
		return a, false
	}
	if seed, found := v.seeds.seen[a.Unmap()]; found {
		v.bad(path, s, "is the seed host's own address "+v.where(seed), "give the address of the BMC")
		return a, false
	}
	return a.Unmap(), true
}

// discovery checks the ranges that are searched.
func (v *validator) discovery(ranges []region.DiscoveryRange, credentials *uniqueNames) {
	type searched struct {
		addressRange
		path string
		port int32
	}
	var all []searched
	for i, d := range ranges {
		path := fmt.Sprintf("%s.discovery[%d]", hardwarePath, i)
		credentials.refer(path+".credentials", d.Credentials, hardwarePath+".credentials")
		r, ok := v.addressRange(path+".range", d.Range)
		if !ok {
			continue
		}
		if !within16(r) {
			v.bad(path+".range", d.Range, "is not within one /16", "split it; a search of more than 65,536 addresses takes too long")
			continue
		}
		v.free(path+".range", d.Range, r, v.seeds.list, "the seed host's own address")
		for _, other := range all {
			if other.port == d.Port && other.overlaps(r) {
				v.bad(path+".range", d.Range, fmt.Sprintf("overlaps %s-%s of %s", other.first, other.last, v.where(other.path)),
					"each address is searched once; make the ranges separate")
			}
		}
		all = append(all, searched{r, path + ".range", d.Port})
	}
}

// reachable reports profiles that no server can get: those behind one that takes every server,
// unless a server asks for them by name.
func (v *validator) reachable(h region.Hardware) {
	catchAll := -1
	for i, p := range h.Profiles {
		if catchAll < 0 {
			if p.Match.Empty() && !v.index.damaged(fmt.Sprintf("%s.profiles[%d].match", hardwarePath, i)) {
				catchAll = i
			}
			continue
		}
		if p.Name == "" || slices.ContainsFunc(h.Servers, func(s region.StaticServer) bool { return s.Profile == p.Name }) {
			continue
		}
		v.bad(fmt.Sprintf("%s.profiles[%d].name", hardwarePath, i), p.Name,
			fmt.Sprintf("is never reached: the profile %s before it, %s, takes every server", quote(h.Profiles[catchAll].Name),
				v.where(fmt.Sprintf("%s.profiles[%d]", hardwarePath, catchAll))),
			"move it before that one, or name it in a server's profile")
	}
}
