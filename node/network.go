package node

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"regiond.dev/regiond/machine/identity"
)

// NetworkDir is where systemd-networkd and systemd-udevd read run-time configuration; see systemd.network(5).
const NetworkDir = "/run/systemd/network"

// File is a file to write.
type File struct {
	Name    string
	Content string
}

// RenderNetwork turns the network of an identity into files for systemd-networkd and systemd-udevd.
// Interfaces are found by their permanent MAC address, not by the kernel's names, which change with
// kernels, and not by the present address, which is the bond's for all its members.
func RenderNetwork(n identity.Network) []File {
	bondOf := map[string]string{}
	for _, b := range n.Bonds {
		for _, member := range b.Interfaces {
			bondOf[member] = b.Name
		}
	}
	var files []File
	for _, i := range n.Interfaces {
		match := section("Match", "PermanentMACAddress="+i.MACAddress)
		// 10- comes before the distribution's 99-default.link; the first that matches is used.
		files = append(files, File{"10-regiond-" + i.Name + ".link", header + match + section("Link", "Name="+i.Name)})
		body := match + mtu(i.Addresses)
		if bond := bondOf[i.Name]; bond != "" {
			body += section("Network", "Bond="+bond, "LinkLocalAddressing=no", "LLDP=yes", "EmitLLDP=yes")
		} else {
			body += network(i.Addresses)
		}
		files = append(files, File{"10-regiond-" + i.Name + ".network", header + body})
	}
	for _, b := range n.Bonds {
		lines := []string{"Mode=" + b.Mode, "MIIMonitorSec=100ms"}
		if b.LACPRate != "" {
			lines = append(lines, "LACPTransmitRate="+b.LACPRate)
		}
		if b.XmitHashPolicy != "" {
			lines = append(lines, "TransmitHashPolicy="+b.XmitHashPolicy)
		}
		netdev := []string{"Name=" + b.Name, "Kind=bond"}
		if b.MTU > 0 {
			netdev = append(netdev, fmt.Sprintf("MTUBytes=%d", b.MTU))
		}
		files = append(files,
			File{"20-regiond-" + b.Name + ".netdev", header + section("NetDev", netdev...) + section("Bond", lines...)},
			File{"20-regiond-" + b.Name + ".network", header + section("Match", "Name="+b.Name) + mtu(b.Addresses) + network(b.Addresses)})
	}
	return files
}

// ReloadNetwork has systemd-networkd read its files, and reconfigure the links whose files changed
// (networkctl(1)).
func ReloadNetwork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "networkctl", "reload").CombinedOutput()
	if err != nil {
		return fmt.Errorf("networkctl reload: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

const header = "# Written by regiond-node at boot from " + identity.MountPoint + "/" + identity.File + "; changes are lost.\n"

func section(name string, lines ...string) string {
	return "\n[" + name + "]\n" + strings.Join(lines, "\n") + "\n"
}

func mtu(a identity.Addresses) string {
	if a.MTU <= 0 {
		return ""
	}
	return section("Link", fmt.Sprintf("MTUBytes=%d", a.MTU))
}

func network(a identity.Addresses) string {
	lines := []string{"LLDP=yes", "EmitLLDP=yes"}
	if a.DHCP {
		lines = append(lines, "DHCP=ipv4")
	}
	for _, addr := range a.Addresses {
		lines = append(lines, "Address="+addr)
	}
	if a.Gateway != "" {
		lines = append(lines, "Gateway="+a.Gateway)
	}
	if !a.DHCP && len(a.Addresses) == 0 {
		lines = append(lines, "LinkLocalAddressing=no")
	}
	if !a.DHCP {
		return section("Network", lines...)
	}
	// A lease that runs out while regiond is away must not take the host off the network. The client
	// is known by its MAC address, as it was to the boot loader and the installer.
	lines = append(lines, "KeepConfiguration=yes")
	return section("Network", lines...) + section("DHCPv4", "ClientIdentifier=mac", "UseHostname=no", "UseDomains=no")
}
