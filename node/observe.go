package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// Observation is what the agent sees of its host.
type Observation struct {
	BootID   string
	BootTime time.Time
	Kernel   string
	Image    string
	Slot     string
	// Release of OpenStack that the packages are of.
	Release   region.OpenStackRelease
	Addresses []string
	// FailedUnits of systemd.
	FailedUnits []string
	// Space on the file systems that matter.
	Space []Space
	// Errors are observations that could not be made.
	Errors []string
}

// Space of a file system.
type Space struct {
	Mount string
	// FreePercent of the blocks and inodes that are available to programs without privileges.
	FreePercent, FreeInodesPercent int
}

// Observer looks at the host. The zero values of Units and Addresses are those of a real system.
type Observer struct {
	// Root of the file system, / on a real system.
	Root string
	// Units lists the failed units of systemd.
	Units func(ctx context.Context) ([]string, error)
	// Addresses of the host.
	Addresses func() ([]netip.Addr, error)
	// Inventory reads what the machine is. It reads from every disk, so it is called once.
	Inventory func() (inventory.Inventory, error)
	// Neighbour begins to listen on an interface and returns the switch port that was heard there so far, or nil. Without
	// it nothing is listened to.
	Neighbour func(ctx context.Context, name string) *inventory.LLDPNeighbour
}

// Observe looks at everything once.
func (o Observer) Observe(ctx context.Context) Observation {
	if o.Units == nil {
		o.Units = failedUnits
	}
	if o.Addresses == nil {
		o.Addresses = addresses
	}
	var seen Observation
	failed := func(what string, err error) {
		if err != nil {
			seen.Errors = append(seen.Errors, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var err error
	seen.BootID, err = o.text("proc/sys/kernel/random/boot_id")
	failed("boot ID", err)
	seen.Kernel, err = o.text("proc/sys/kernel/osrelease")
	failed("kernel release", err)
	cmdline, err := o.text("proc/cmdline")
	failed("kernel command line", err)
	seen.Slot = slot(cmdline)
	seen.BootTime, err = o.bootTime()
	failed("boot time", err)
	seen.Image = o.imageVersion()
	seen.Release = region.ReleaseOfNova(o.packageVersion("nova-compute"))
	seen.FailedUnits, err = o.Units(ctx)
	failed("failed units", err)
	for _, mount := range []string{"/", identity.MountPoint} {
		s, err := space(filepath.Join(o.Root, mount))
		failed("space on "+mount, err)
		if err == nil {
			s.Mount = mount
			seen.Space = append(seen.Space, s)
		}
	}
	found, err := o.Addresses()
	failed("addresses", err)
	for _, a := range found {
		seen.Addresses = append(seen.Addresses, a.String())
	}
	return seen
}

// steady is what is told after an observation: a part that could not be observed once, as systemd on a
// busy host answers late now and then, is as it was before. The second time in a row it is told.
func steady(now, before Observation) Observation {
	if len(now.Errors) > 0 && len(before.Errors) == 0 && before.BootID != "" && before.BootID == now.BootID {
		return before
	}
	return now
}

func (o Observer) text(path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(o.Root, path))
	return strings.TrimSpace(string(b)), err
}

// SystemUUID from SMBIOS, empty when there is none.
func (o Observer) SystemUUID() string {
	s, err := o.text("sys/class/dmi/id/product_uuid")
	if err != nil {
		return ""
	}
	return strings.ToLower(s)
}

// readInventory of the machine.
func readInventory() (inventory.Inventory, error) {
	r := inventory.NewReader()
	// The members of a bond show its address in place of their own (Linux bonding driver, sysfs).
	r.PermanentMAC = func(name string) (net.HardwareAddr, error) {
		b, err := os.ReadFile(filepath.Join("/sys/class/net", name, "bonding_slave/perm_hwaddr"))
		if err != nil {
			return nil, err
		}
		return net.ParseMAC(strings.TrimSpace(string(b)))
	}
	return r.Read()
}

// imageVersion of the running root file system, see os-release(5). It is not that of the identity: an
// update writes another slot.
func (o Observer) imageVersion() string {
	b, err := os.ReadFile(filepath.Join(o.Root, "etc/os-release"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "IMAGE_VERSION="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// packageVersion of an installed Debian package, from dpkg's own list; empty if it is not installed.
func (o Observer) packageVersion(name string) string {
	f, err := os.Open(filepath.Join(o.Root, "var/lib/dpkg/status"))
	if err != nil {
		return ""
	}
	defer f.Close()
	found := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case key == "Package":
			found = value == name
		case key == "Status" && found && !strings.HasSuffix(value, " installed"):
			return ""
		case key == "Version" && found:
			return value
		}
	}
	return ""
}

// bootTime from the field btime of proc_stat(5), in seconds since the epoch.
func (o Observer) bootTime() (time.Time, error) {
	b, err := os.ReadFile(filepath.Join(o.Root, "proc/stat"))
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "btime "); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			return time.Unix(n, 0).UTC(), err
		}
	}
	return time.Time{}, fmt.Errorf("/proc/stat has no btime")
}

// slot that is running, by the partition label on the kernel's command line.
func slot(cmdline string) string {
	for _, arg := range strings.Fields(cmdline) {
		switch arg {
		case "root=PARTLABEL=root-a":
			return "A"
		case "root=PARTLABEL=root-b":
			return "B"
		}
	}
	return ""
}

// ownUnit waits for this very judgement, so its state must not be part of it.
const ownUnit = "regiond-node-healthy.service"

func failedUnits(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager").Output()
	if err != nil {
		return nil, fmt.Errorf("systemctl list-units: %w", err)
	}
	return parseUnits(out), nil
}

func parseUnits(out []byte) []string {
	var units []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 0 && f[0] != ownUnit {
			units = append(units, f[0])
		}
	}
	slices.Sort(units)
	return units
}

func space(path string) (Space, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Space{}, err
	}
	s := Space{FreePercent: 100, FreeInodesPercent: 100}
	if st.Blocks > 0 {
		s.FreePercent = int(st.Bavail * 100 / st.Blocks)
	}
	if st.Files > 0 { // vfat and others have no inodes
		s.FreeInodesPercent = int(st.Ffree * 100 / st.Files)
	}
	return s, nil
}

// addresses that others can reach, sorted.
func addresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var found []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			found = append(found, p.Addr())
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}
