package preflight

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/bootstrap/datadir"
)

// Collect collects facts about this host. It changes nothing: required ports are bound and released
// at once. running is the regiond that holds the data directory, nil for none (see package
// bootstrap's lock).
func Collect(ctx context.Context, w Requirements, running *Process) (Host, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Host{}, fmt.Errorf("uname: %w", err)
	}
	h := Host{
		UID:      os.Geteuid(),
		Kernel:   unix.ByteSliceToString(u.Release[:]),
		Hostname: unix.ByteSliceToString(u.Nodename[:]),
		NFT:      nftVersion(ctx),
		Now:      time.Now(),
		Running:  running,
	}
	var err error
	if h.Cgroups, err = cgroupsOf("/sys/fs/cgroup"); err != nil {
		return Host{}, err
	}
	h.Overlay = hasFilesystem("overlay") || hasModule(h.Kernel, "overlay")
	h.BridgeNetfilter = exists("/proc/sys/net/bridge/bridge-nf-call-iptables") || hasModule(h.Kernel, "br_netfilter")
	if h.MemoryTotal, h.SwapTotal, err = meminfo("/proc/meminfo"); err != nil {
		return Host{}, err
	}
	if h.Disk, h.LastUse, err = diskOf(w.DataDir); err != nil {
		return Host{}, err
	}
	if h.Interfaces, err = interfaces(); err != nil {
		return Host{}, err
	}
	h.NodeImage = exists(filepath.Join(w.ImageDir, "node", "current", "manifest.json"))
	const forward = "/proc/sys/net/ipv4/ip_forward"
	v, err := os.ReadFile(forward)
	if err != nil {
		return Host{}, err
	}
	h.Forwarding = strings.TrimSpace(string(v)) == "1"
	h.ForwardingWritable = unix.Access(forward, unix.W_OK) == nil
	h.Ports, err = portsInUse(ctx, w, running)
	return h, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cgroupsOf reads which controllers are available below root.
func cgroupsOf(root string) (Cgroups, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return Cgroups{}, nil
		}
		return Cgroups{}, fmt.Errorf("statfs %s: %w", root, err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		return Cgroups{Version: 2, Controllers: strings.Fields(string(b))}, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return Cgroups{}, err
	}
	c := Cgroups{Version: 1}
	for _, e := range entries {
		// A hierarchy may be a link ("cpu -> cpu,cpuacct"), so follow it.
		if exists(filepath.Join(root, e.Name(), "cgroup.procs")) {
			c.Controllers = append(c.Controllers, e.Name())
		}
	}
	if len(c.Controllers) == 0 {
		return Cgroups{}, nil
	}
	return c, nil
}

func hasFilesystem(name string) bool {
	b, err := os.ReadFile("/proc/filesystems")
	return err == nil && slices.Contains(strings.Fields(string(b)), name)
}

// hasModule reports whether a module is built into the running kernel or can be loaded.
func hasModule(release, name string) bool {
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		b, err := os.ReadFile(filepath.Join("/lib/modules", release, list))
		if err == nil && strings.Contains(string(b), "/"+name+".ko") {
			return true
		}
	}
	return false
}

var nftOutput = regexp.MustCompile(`nftables v([0-9.]+)`)

// nftVersion returns the version of nft, empty if it can't be run.
func nftVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nft", "--version").Output()
	if err != nil {
		return ""
	}
	m := nftOutput.FindSubmatch(out)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// meminfo reads sizes in bytes (proc(5)).
func meminfo(path string) (total, swap uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 2 {
			continue
		}
		kib, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = kib << 10
		case "SwapTotal:":
			swap = kib << 10
		}
	}
	return total, swap, s.Err()
}

// diskOf returns the file system of the data directory, and when the directory was last used.
func diskOf(dataDir string) (Disk, time.Time, error) {
	path := filepath.Clean(dataDir)
	for !exists(path) && path != "/" {
		path = filepath.Dir(path)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Disk{}, time.Time{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	d := Disk{Path: path, Free: fs.Bavail * uint64(fs.Bsize), HasData: exists(datadir.Etcd.In(dataDir))}
	switch fs.Type {
	case unix.OVERLAYFS_SUPER_MAGIC:
		d.Filesystem = "overlayfs"
	case unix.NFS_SUPER_MAGIC:
		d.Filesystem = "nfs"
	}
	var last time.Time
	if i, err := os.Stat(datadir.Journal.In(dataDir)); err == nil {
		last = i.ModTime()
	}
	return d, last, nil
}

func interfaces() ([]Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var all []Interface
	for _, l := range links {
		i := Interface{Name: l.Name, Up: l.Flags&net.FlagUp != 0}
		addrs, err := l.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", l.Name, err)
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue // not an IP address
			}
			i.Addresses = append(i.Addresses, p)
		}
		all = append(all, i)
	}
	return all, nil
}
