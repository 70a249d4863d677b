package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
)

// proxyTable is kube-proxy's table. Its name is hard-coded, so a host has only one, which belongs
// to the control plane that was started last.
const proxyTable = "kube-proxy"

// Versions until December 2026 used the same names for all regions on a host. Such a bridge is
// renamed when its region starts; a reset without a prior start removes it unless it still has
// ports, which then belong to another region's pods.
const (
	landedBridge = "regiond-pods"
	landedTable  = "regiond"
)

// adoptLandedNetwork renames the bridge of an earlier version if it has pods of this region.
// Running pods stay connected. The next start completes a start that was killed at any step: each
// step depends on what it observes, not on whether the previous step was done.
func adoptLandedNetwork(n config.Node) error {
	leases, err := os.ReadDir(datadir.CNI.In(n.DataDir, "ipam", config.Network))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking for pods' addresses: %w", err)
	}
	own, err := findLink(config.Bridge(n.ID))
	if err != nil {
		return err
	}
	if own == nil && len(leases) == 0 {
		return nil
	}
	landed, err := findLink(landedBridge)
	if err != nil {
		return err
	}
	if own == nil && landed != nil {
		if err := renameLink(landed, config.Bridge(n.ID)); err != nil {
			return fmt.Errorf("renaming the pods' bridge %s to %s: %w", landedBridge, config.Bridge(n.ID), err)
		}
		own, landed = landed, nil
	}
	if own != nil {
		if err := netlink.LinkSetUp(own); err != nil {
			return fmt.Errorf("setting up the pods' bridge %s: %w", config.Bridge(n.ID), err)
		}
	}
	if landed != nil {
		return nil // another region still runs the earlier version and owns the table
	}
	// All regions of the earlier version shared one bridge and one table. Without the bridge no such
	// region is running, and the table is a leftover.
	return deleteTables(landedTable)
}

// renameLink may leave the link down: Linux before 6.2 renames only links that are down.
func renameLink(link netlink.Link, name string) error {
	err := netlink.LinkSetName(link, name)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return err
	}
	return netlink.LinkSetName(link, name)
}

// removeNetwork removes the region's bridge and tables. It also removes kube-proxy's table, unless
// another region has a table here, because that region's kube-proxy has then written it. landed
// says that the region may only have been started by an earlier version.
func removeNetwork(id string, landed bool) error {
	if landed {
		if err := removeLandedNetwork(); err != nil {
			return err
		}
	}
	if id == "" {
		return nil
	}
	link, err := findLink(config.Bridge(id))
	if err == nil && link != nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing the pods' bridge: %w", err)
	}
	return releaseTables(config.MasqueradeTable(id))
}

func removeLandedNetwork() error {
	link, err := findLink(landedBridge)
	if link == nil || err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	for _, l := range links {
		if l.Attrs().MasterIndex == link.Attrs().Index {
			return nil
		}
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("removing the pods' bridge: %w", err)
	}
	return releaseTables(landedTable)
}

// releaseTables removes a region's own table, and kube-proxy's if no other region needs it.
func releaseTables(own string) error {
	four, err := tableNames(false)
	if err != nil {
		return err
	}
	six, err := tableNames(true)
	if err != nil {
		return err
	}
	return deleteTables(tablesToDelete(append(four, six...), own)...)
}

// tablesToDelete decides which of the host's tables are removed with a region that owns one of
// them.
func tablesToDelete(present []string, own string) []string {
	var out []string
	others := false
	for _, name := range present {
		others = others || name != own && (name == landedTable || strings.HasPrefix(name, landedTable+"-"))
		if name == own {
			out = []string{own}
		}
	}
	if len(out) > 0 && !others {
		out = append(out, proxyTable)
	}
	return out
}

// findLink returns nil if the host lacks the link.
func findLink(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for link %s: %w", name, err)
	}
	return link, nil
}

// tableNames lists the nftables tables of an address family.
func tableNames(six bool) ([]string, error) {
	connection, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	tables, err := connection.ListTables()
	if err != nil {
		return nil, fmt.Errorf("listing nftables tables: %w", err)
	}
	family := nftables.TableFamilyIPv4
	if six {
		family = nftables.TableFamilyIPv6
	}
	var names []string
	for _, t := range tables {
		if t.Family == family {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

func deleteTables(names ...string) error {
	var all error
	for _, family := range []string{"ip", "ip6"} {
		for _, table := range names {
			// add before delete, because deleting a missing table is an error.
			all = errors.Join(all, nft(fmt.Sprintf("add table %[1]s %[2]s\ndelete table %[1]s %[2]s\n", family, table)))
		}
	}
	return all
}
