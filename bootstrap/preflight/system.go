package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func root(h Host) Result {
	if h.UID != 0 {
		return fail("root", "run it as root: sudo regiond ...", "running as uid %d; containers, mounts and DHCP need root", h.UID)
	}
	return ok("root", "running as root")
}

// instance looks for another regiond on the same data. It is not a failure of the host; the data
// directory's lock refuses a second one.
func instance(h Host) Result {
	if h.Running == nil {
		return ok("instance", "no other regiond is running on this data directory")
	}
	fix := fmt.Sprintf("`regiond status` shows it; to restart it, stop it first: kill %d", h.Running.PID)
	if h.Running.Unit != "" {
		fix = fmt.Sprintf("`regiond status` shows it; to restart it: systemctl restart %s", h.Running.Unit)
	}
	return warn("instance", fix, "regiond is already running on this data directory, pid %d", h.Running.PID)
}

// Minimum versions for kube-proxy in nftables mode (Kubernetes documentation, "Virtual IPs and
// Service Proxies": kernel 5.13 and nft 1.0.1).
const (
	minKernel = "5.13"
	minNFT    = "1.0.1"
)

func kernel(h Host) Result {
	if !versionAtLeast(h.Kernel, minKernel) {
		return fail("kernel", "install a newer kernel; Debian 12 has 6.1, Debian 13 has 6.12",
			"Linux %s is older than %s, which kube-proxy's nftables mode needs", h.Kernel, minKernel)
	}
	return ok("kernel", "Linux %s", h.Kernel)
}

// versionAtLeast compares dotted numbers and ignores everything after them.
func versionAtLeast(have, want string) bool {
	h, w := numbers(have), numbers(want)
	for i := range w {
		if i >= len(h) {
			return false
		}
		if h[i] != w[i] {
			return h[i] > w[i]
		}
	}
	return true
}

var leadingVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*`)

func numbers(v string) []int {
	var n []int
	for part := range strings.SplitSeq(leadingVersion.FindString(v), ".") {
		x, err := strconv.Atoi(part)
		if err != nil {
			return n
		}
		n = append(n, x)
	}
	return n
}

// Controllers that the kubelet and runc use. In v2, devices are BPF programs and freezing is built
// in.
var (
	controllersV1 = []string{"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}
	controllersV2 = []string{"cpu", "cpuset", "memory", "pids"}
)

func cgroups(h Host) Result {
	c := h.Cgroups
	want := controllersV2
	switch c.Version {
	case 0:
		return fail("cgroups", "mount cgroup2 at /sys/fs/cgroup (systemd does it at boot)", "no control groups are mounted at /sys/fs/cgroup")
	case 1:
		want = controllersV1
	}
	var missing []string
	for _, name := range want {
		if !slices.Contains(c.Controllers, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fail("cgroups", "enable them on the kernel's command line (e.g. cgroup_enable=memory) and reboot",
			"cgroup v%d lacks the controllers %s", c.Version, strings.Join(missing, ", "))
	}
	if c.Version == 1 {
		return warn("cgroups", "boot with systemd.unified_cgroup_hierarchy=1", "cgroup v1, which Kubernetes no longer develops but which still works")
	}
	return ok("cgroups", "cgroup v2 with %s", strings.Join(want, ", "))
}

func overlay(h Host) Result {
	if !h.Overlay {
		return fail("overlayfs", "modprobe overlay, or boot a kernel that has CONFIG_OVERLAY_FS", "the kernel has no overlayfs, which containers' file systems need")
	}
	return ok("overlayfs", "the kernel has overlayfs")
}

func nftables(h Host) Result {
	const fix = "apt-get install nftables"
	switch {
	case h.NFT == "":
		return fail("nftables", fix, "the program nft was not found on PATH; Services need nftables rules")
	case !versionAtLeast(h.NFT, minNFT):
		return fail("nftables", fix, "nft %s is older than %s", h.NFT, minNFT)
	}
	return ok("nftables", "nft %s", h.NFT)
}

// bridgeNetfilter: pods of one host share a bridge. Without br_netfilter, a reply from a pod to its
// neighbour is switched, not routed, and is not translated back to the Service's address.
func bridgeNetfilter(h Host) Result {
	if !h.BridgeNetfilter {
		return fail("br_netfilter", "modprobe br_netfilter, or boot a kernel that has CONFIG_BRIDGE_NETFILTER",
			"the kernel has no br_netfilter; pods could not reach Services whose pods run on the same host")
	}
	return ok("br_netfilter", "the kernel has br_netfilter")
}

// dataDirectory: regiond would write into foreign entries, and reset would remove them.
func dataDirectory(h Host, w Requirements) Result {
	if len(h.Foreign) > 0 {
		return fail("data-directory", "set controlPlane.dataDir to another directory, or move those entries away",
			"%s has %s, but no regiond was started there", w.DataDir, strings.Join(h.Foreign, ", "))
	}
	return ok("data-directory", "%s is regiond's own", w.DataDir)
}

func disk(h Host, w Requirements) Result {
	d := h.Disk
	switch {
	case d.Filesystem == "overlayfs", d.Filesystem == "nfs":
		return fail("disk", "put controlPlane.dataDir on a local file system such as ext4 or xfs",
			"%s is on %s, which can't hold the writable layers of containers", d.Path, d.Filesystem)
	case d.Free < MinDisk && !d.HasData:
		return fail("disk", fmt.Sprintf("free at least %s there, or set controlPlane.dataDir to a larger file system", size(MinDisk)),
			"%s free for %s, %s required", size(d.Free), w.DataDir, size(MinDisk))
	case d.Free < MinDisk/10:
		// On a later start the region must come up to be repaired; only a nearly full disk prevents it,
		// because etcd would fail.
		return fail("disk", "free some space there; look for what grows in `regiond status` and in the logs of other services",
			"only %s free for %s; etcd needs space to write", size(d.Free), w.DataDir)
	case d.Free < MinDisk:
		return warn("disk", fmt.Sprintf("free at least %s there", size(MinDisk)), "%s free for %s", size(d.Free), w.DataDir)
	}
	return ok("disk", "%s free for %s", size(d.Free), w.DataDir)
}

func memory(h Host) Result {
	// Firmware and kernel use some of the installed memory: a 2 GiB machine shows about 1.9 GiB.
	if h.MemoryTotal < MinMemory*9/10 {
		return fail("memory", "use a host with more memory; 4 GiB or more are recommended", "%s of memory, %s required", size(h.MemoryTotal), size(MinMemory))
	}
	return ok("memory", "%s of memory", size(h.MemoryTotal))
}

func swap(h Host) Result {
	if h.SwapTotal > 0 {
		return warn("swap", "swapoff -a, and remove swap from /etc/fstab",
			"%s of swap is enabled; etcd responds slowly when it is swapped out, and Secrets in memory may reach the disk", size(h.SwapTotal))
	}
	return ok("swap", "no swap")
}

// dns1123Subdomain is what Kubernetes requires of node names (RFC 1123 section 2.1, lower case).
var dns1123Subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func hostname(h Host) Result {
	const fix = "hostnamectl set-hostname NAME, with letters, digits and '-' (RFC 1123)"
	name := strings.ToLower(h.Hostname)
	switch {
	case name == "" || name == "localhost" || strings.HasPrefix(name, "localhost."):
		return fail("hostname", fix, "the host has no name of its own (%q); it becomes the name of the Kubernetes node", h.Hostname)
	case len(name) > 63 || !dns1123Subdomain.MatchString(name):
		return fail("hostname", fix, "%q can't be the name of a Kubernetes node", h.Hostname)
	}
	return ok("hostname", "%s", name)
}

// earliest is before the first release of regiond: a clock that shows an earlier time was never
// set.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(h Host) Result {
	const fix = "set the clock: timedatectl set-ntp true, or hwclock --systohc after date --set"
	switch {
	case h.Now.Before(earliest):
		return fail("clock", fix, "the clock shows %s, before regiond existed; certificates issued now would be wrong", h.Now.UTC().Format(time.RFC3339))
	case h.LastUse.Sub(h.Now) > time.Hour:
		return fail("clock", fix, "the clock shows %s, but regiond wrote its data at %s; its certificates would not be valid yet",
			h.Now.UTC().Format(time.RFC3339), h.LastUse.UTC().Format(time.RFC3339))
	}
	return ok("clock", "%s", h.Now.UTC().Format(time.RFC3339))
}

func forwarding(h Host) Result {
	switch {
	case h.Forwarding:
		return ok("ip-forward", "net.ipv4.ip_forward is on")
	case h.ForwardingWritable:
		return ok("ip-forward", "net.ipv4.ip_forward is off; regiond enables it for pods")
	}
	return fail("ip-forward", "sysctl -w net.ipv4.ip_forward=1", "net.ipv4.ip_forward, which pods need, is off and /proc/sys is read-only")
}

// nodeImage: the image may be built later; discovered servers wait for it.
func nodeImage(h Host, w Requirements) Result {
	if !h.NodeImage {
		return warn("node-image", "regiond image build", "no node image in %s; servers will be discovered but not installed", w.ImageDir)
	}
	return ok("node-image", "found one in %s", w.ImageDir)
}

// credentials prevents only a first start: later the region must come up nevertheless, to be
// repaired.
func credentials(h Host) Result {
	const check = "credentials"
	if len(h.Credentials) == 0 {
		return ok(check, "all files with BMC credentials are readable")
	}
	var faults []string
	for _, c := range h.Credentials {
		faults = append(faults, fmt.Sprintf("%s: %s", c.Name, c.Fault))
	}
	r := fail(check, "repair the files; they are reloaded when they change", "%s", strings.Join(faults, "; "))
	if h.Disk.HasData {
		r.Status = Warn
	}
	return r
}

func size(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
