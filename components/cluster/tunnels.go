package cluster

import (
	"fmt"
	"strings"
)

// maxTold is how many hosts, and other ends of each, a warning of tunnels names.
const maxTold = 3

// blockedTunnels warns of tunnels that large packets don't get through. Hosts are ready all the
// same: they serve what fits, and guests on them would not be better off if the rest of a change
// waited.
func blockedTunnels(nodes []NodeFacts) []string {
	names := map[string]string{}
	for _, n := range nodes {
		names[n.Address] = n.Name
	}
	var told []string
	hosts, size := 0, int32(0)
	for _, n := range nodes {
		if n.Tunnels == nil || len(n.Tunnels.Blocked) == 0 {
			continue
		}
		hosts++
		size = max(size, n.Tunnels.MTU)
		if len(told) < maxTold {
			told = append(told, fmt.Sprintf("from %s to %s", n.Name, others(n.Tunnels.Blocked, names)))
		}
	}
	if hosts == 0 {
		return nil
	}
	if hosts > maxTold {
		told = append(told, fmt.Sprintf("and from %d other hosts", hosts-maxTold))
	}
	return []string{fmt.Sprintf("packets of %d bytes, which guests' tunnels need, don't get %s: set an MTU of at least %d on every interface and switch "+
		"between, or a smaller neutron.global_physnet_mtu", size, strings.Join(told, ", "), size)}
}

// others names ends of tunnels by their hosts, where they are known.
func others(addresses []string, names map[string]string) string {
	var all []string
	for _, a := range addresses[:min(len(addresses), maxTold)] {
		if name := names[a]; name != "" {
			a = name
		}
		all = append(all, a)
	}
	if more := len(addresses) - maxTold; more > 0 {
		all = append(all, fmt.Sprintf("%d others", more))
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " and " + all[last]
	}
	return all[0]
}
