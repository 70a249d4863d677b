package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"regiond.dev/regiond/bootstrap/kube/config"
)

const cgroupMount = "/sys/fs/cgroup"

// detect detects the properties of the host that the components' configuration depends on.
func detect(id string) (config.Host, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &stat); err != nil {
		return config.Host{}, fmt.Errorf("%s: %w; mount the control groups", cgroupMount, err)
	}
	h := config.Host{CgroupV2: stat.Type == unix.CGROUP2_SUPER_MAGIC, CgroupRoot: "/"}
	// sd_booted(3).
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		h.Systemd = true
	} else {
		h.CgroupRoot = config.CgroupRoot(id)
	}
	effective, err := effectiveCapabilities()
	if err != nil {
		return config.Host{}, err
	}
	h.LowerOOMScore = effective&(1<<unix.CAP_SYS_RESOURCE) != 0
	return h, nil
}

// nft runs nftables commands as one transaction.
func nft(commands string) error {
	command := exec.Command("nft", "-f", "-")
	command.Stdin = strings.NewReader(commands)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

func effectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("reading our capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// prepareHost sets up what the components expect of a host.
func prepareHost(n config.Node) error {
	// The kernel routes the traffic of pods and Services.
	family := "/proc/sys/net/ipv4/ip_forward"
	if n.NodePodCIDR.Addr().Is6() {
		family = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	if err := os.WriteFile(family, []byte("1\n"), 0o644); err != nil {
		return fmt.Errorf("enabling forwarding: %w", err)
	}
	if err := adoptLandedNetwork(n); err != nil {
		return err
	}
	if err := nft(n.Masquerade()); err != nil {
		return fmt.Errorf("setting up masquerading for pods: %w", err)
	}
	if err := recordForeign(n.DataDir); err != nil {
		return err
	}
	if n.Host.CgroupRoot == "/" {
		return nil
	}
	if n.Host.CgroupV2 {
		return makeUnifiedCgroup(n.Host.CgroupRoot)
	}
	return makeLegacyCgroups(n.Host.CgroupRoot)
}

// unifiedControllers are the controllers of cgroup v2 that the kubelet uses.
var unifiedControllers = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

// makeUnifiedCgroup creates the pods' root in the unified hierarchy of a host without systemd. The
// kubelet considers a cgroup missing if it lacks a controller that the kernel has.
func makeUnifiedCgroup(name string) error {
	controllers, err := os.ReadFile(filepath.Join(cgroupMount, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		if !slices.Contains(unifiedControllers, c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(cgroupMount, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("enabling cgroup controller %s: %w", c, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(cgroupMount, name), 0o755); err != nil {
		return fmt.Errorf("creating the pods' cgroup: %w", err)
	}
	return nil
}

// legacyControllers are the hierarchies of cgroup v1 in which the kubelet looks for its root.
var legacyControllers = []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "net_cls", "net_prio", "perf_event", "pids", "systemd"}

// makeLegacyCgroups creates the pods' root in each hierarchy of cgroup v1.
func makeLegacyCgroups(name string) error {
	for _, controller := range legacyControllers {
		mount := filepath.Join(cgroupMount, controller)
		if there, err := isHierarchy(mount); err != nil {
			return err
		} else if !there {
			continue
		}
		dir := filepath.Join(mount, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating the pods' cgroup: %w", err)
		}
		if controller != "cpuset" {
			continue
		}
		// A cpuset starts empty, and an empty one accepts no processes (cpuset(7)).
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(mount, f))
			if err != nil {
				return fmt.Errorf("creating the pods' cgroup: %w", err)
			}
			if err := os.WriteFile(filepath.Join(dir, f), all, 0o644); err != nil {
				return fmt.Errorf("creating the pods' cgroup: %w", err)
			}
		}
	}
	return nil
}

// isHierarchy reports whether a hierarchy of cgroup v1 is mounted on a folder. A host may have the
// folder without a mount; a child would then be an ordinary folder, which can't be removed like a
// cgroup.
func isHierarchy(folder string) (bool, error) {
	var stat unix.Statfs_t
	err := unix.Statfs(folder, &stat)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", folder, err)
	}
	return stat.Type == unix.CGROUP_SUPER_MAGIC, nil
}

// resolvConf renders the resolv.conf for pods that use the host's DNS, above all CoreDNS.
func resolvConf(given []netip.Addr) ([]byte, error) {
	servers, err := Nameservers(given)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	return []byte(b.String()), nil
}

// Nameservers returns the nameservers for names outside the cluster: the given ones, or else the
// host's. Loopback addresses are left out, because in a pod they refer to the pod itself. The
// result may be empty; CoreDNS must then not forward.
func Nameservers(given []netip.Addr) ([]netip.Addr, error) {
	if len(given) > 0 {
		return given, nil
	}
	// systemd-resolved keeps the real servers in the first file and puts its own loopback address into
	// the second.
	for _, path := range []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"} {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the host's nameservers: %w", err)
		}
		if servers := parseResolvConf(string(b)); len(servers) > 0 {
			return servers, nil
		}
	}
	return nil, nil
}

// parseResolvConf returns the usable nameservers of a resolv.conf(5).
func parseResolvConf(content string) []netip.Addr {
	var out []netip.Addr
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(fields[1])
		if err != nil || a.IsLoopback() || a.IsUnspecified() || slices.Contains(out, a) {
			continue
		}
		out = append(out, a)
	}
	return out
}
