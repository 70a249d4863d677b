package main

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/region"
)

// profilesOf are the profiles of servers by name: of those that the file tells and, if there is a
// control plane, of its hosts.
func profilesOf(ctx context.Context, api client.Client, r *region.Region) (map[string]*region.Profile, error) {
	profiles := map[string]*region.Profile{}
	for _, s := range r.Spec.Hardware.Servers {
		if p, sure := region.ProfileOf(&r.Spec.Hardware, s); p != nil && sure {
			profiles[s.Name] = p
		}
	}
	if api == nil {
		return profiles, nil
	}
	var hosts region.HostList
	if err := api.List(ctx, &hosts); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	for _, h := range hosts.Items {
		i := slices.IndexFunc(r.Spec.Hardware.Profiles, func(p region.Profile) bool { return p.Name == h.Spec.Profile })
		if i >= 0 {
			profiles[h.Name] = &r.Spec.Hardware.Profiles[i]
		}
	}
	return profiles, nil
}

// hostOutputs are what a host becomes by its profile: its network, and what is appended to its
// kernel's command line. MAC addresses that only an inventory tells are shown as <mac:INTERFACE>.
func hostOutputs(name string, p *region.Profile) ([]configgen.Output, error) {
	network, refused := server.ResolveNetwork(p.Network, expectedNICs(p.Network))
	if refused != nil {
		return nil, fmt.Errorf("network of profile %s: %s", p.Name, refused.Message)
	}
	dir, arguments := "nodes/"+name, ""
	for _, argument := range p.KernelArguments {
		arguments += argument + "\n"
	}
	outputs := []configgen.Output{{Name: dir + "/kernel-arguments", Role: configgen.RoleCompute, Node: name,
		Content: []byte(arguments)}}
	for _, f := range node.RenderNetwork(network) {
		path := node.NetworkDir + "/" + f.Name
		outputs = append(outputs, configgen.Output{Name: dir + path, Role: configgen.RoleCompute, Node: name, Content: []byte(f.Content),
			File: configgen.File{Path: path, Mode: "0644", Owner: "root", Group: "root", Network: true, Content: f.Content}})
	}
	return outputs, nil
}

// expectedNICs are those that the profile's interfaces match.
func expectedNICs(n *region.HostNetwork) []inventory.NIC {
	if n == nil {
		return []inventory.NIC{{MACAddress: "<mac:" + server.DefaultInterface + ">", Boot: true}}
	}
	nics := make([]inventory.NIC, len(n.Interfaces))
	for i, one := range n.Interfaces {
		nics[i] = inventory.NIC{MACAddress: one.Match.PermanentMACAddress, PCIAddress: one.Match.PCIAddress, Boot: one.Match.Boot}
		if nics[i].MACAddress == "" {
			nics[i].MACAddress = "<mac:" + one.Name + ">"
		}
	}
	return nics
}
