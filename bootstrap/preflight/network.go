package preflight

import (
	"fmt"
	"net/netip"
	"strings"
)

// address checks that the host has an address of the seed host.
func address(h Host, check, field string, want netip.Addr, device string) Result {
	if i, _, found := h.holder(want); found {
		if device != "" && i.Name != device {
			return fail(check, fmt.Sprintf("set spec.networks.provisioning.interface to %s, or move the address", i.Name),
				"%s is on interface %s, not on %s", want, i.Name, device)
		}
		if !i.Up {
			return fail(check, "ip link set "+i.Name+" up", "%s is on interface %s, which is down", want, i.Name)
		}
		return ok(check, "%s on %s", want, i.Name)
	}
	to := device
	if to == "" {
		to = "INTERFACE"
	}
	return fail(check, fmt.Sprintf("set %s to one of this host's addresses, or add it: ip address add %s/24 dev %s (and make it permanent)", field, want, to),
		"%s is not an address of this host, which has %s", want, h.addresses())
}

func (h Host) holder(a netip.Addr) (Interface, netip.Prefix, bool) {
	for _, i := range h.Interfaces {
		for _, p := range i.Addresses {
			if p.Addr() == a {
				return i, p, true
			}
		}
	}
	return Interface{}, netip.Prefix{}, false
}

func (h Host) addresses() string {
	var all []string
	for _, i := range h.Interfaces {
		for _, p := range i.Addresses {
			if p.Addr().Is4() && !p.Addr().IsLoopback() {
				all = append(all, fmt.Sprintf("%s (%s)", p, i.Name))
			}
		}
	}
	if len(all) == 0 {
		return "no IPv4 address"
	}
	return strings.Join(all, ", ")
}

func provisioningInterface(h Host, w Requirements) Result {
	const check = "provisioning-interface"
	if w.Interface == "" {
		i, _, found := h.holder(w.Provisioning)
		if !found {
			return warn(check, "give the host the provisioning address", "unknown until the host has %s", w.Provisioning)
		}
		return ok(check, "%s, because it has %s", i.Name, w.Provisioning)
	}
	var names []string
	for _, i := range h.Interfaces {
		if i.Name == w.Interface {
			return ok(check, "%s", i.Name)
		}
		names = append(names, i.Name)
	}
	return fail(check, "set spec.networks.provisioning.interface to one of them, or leave it out",
		"interface %q does not exist; this host has %s", w.Interface, strings.Join(names, ", "))
}

func portChecks(h Host, w Requirements) Report {
	var r Report
	for _, p := range w.Ports {
		r = append(r, port(p, h.use(p)))
	}
	return r
}

func (h Host) use(p Port) *PortUse {
	for i := range h.Ports {
		if u := &h.Ports[i]; u.Port.Network == p.Network && u.Port.Number == p.Number && u.Port.Address == p.Address {
			return u
		}
	}
	return nil
}

func port(p Port, use *PortUse) Result {
	proto := strings.TrimRight(p.Network, "46")
	check := fmt.Sprintf("port-%d-%s", p.Number, proto)
	where := fmt.Sprintf("port %d/%s for %s", p.Number, proto, p.Purpose)
	switch {
	case use == nil:
		return ok(check, "%s is free", where)
	case !use.InUse:
		return warn(check, "fix the problems in the checks above, then check again", "%s could not be tested on %s: %s", where, p.Address, use.Err)
	case use.Holder == nil:
		return fail(check, fmt.Sprintf("look for it on the host and in containers: ss -lnp 'sport = :%d'", p.Number),
			"%s is in use by a process that is not visible from here", where)
	case use.Holder.Own:
		return ok(check, "%s is held by regiond's own %s, pid %d", where, use.Holder.Name, use.Holder.PID)
	}
	by := fmt.Sprintf("%s, pid %d", use.Holder.Name, use.Holder.PID)
	if use.Holder.Unit != "" {
		return fail(check, "systemctl disable --now "+use.Holder.Unit, "%s is in use by %s (%s)", where, by, use.Holder.Unit)
	}
	return fail(check, fmt.Sprintf("stop that process: kill %d", use.Holder.PID), "%s is in use by %s", where, by)
}
