package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// Teardown removes from the host everything that a control plane with this data directory has left
// behind: its processes, its pods (recognized by their shims, whose arguments contain the path of
// our containerd's socket), mounts, network devices, nftables tables, cgroups and folders outside
// the data directory. The control plane must have been stopped. The data directory itself is left
// to the caller. It attempts every step, and the error lists those that failed. It may be repeated.
func Teardown(ctx context.Context, dataDir string, log *slog.Logger) error {
	id, landed, err := identify(dataDir)
	if err != nil {
		return err
	}
	var all error
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"stopping components", func() error {
			return supervisor.EndLeftovers(ctx, datadir.Run.In(dataDir), 15*time.Second, log)
		}},
		{"killing pods", func() error { return killPods(ctx, config.ContainerdSocket(dataDir), log) }},
		{"releasing pods' networks", func() error { return releaseNetworks(ctx, dataDir) }},
		{"unmounting", func() error {
			return unmountBelow(datadir.Kubelet.In(dataDir), datadir.Containerd.In(dataDir))
		}},
		{"removing the pods' bridge and nftables tables", func() error { return removeNetwork(id, landed) }},
		{"removing cgroups", func() error { return removeCgroups(ctx, id) }},
		{"removing folders outside " + dataDir, func() error { return releaseForeign(dataDir, log) }},
	} {
		if err := step.do(); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", step.what, err))
		}
	}
	return all
}

// identify identifies the control plane: the ID in names on the host, empty if no start got that
// far, and whether an earlier version, which wrote no mark, started it last. Unlike pki.Load, it
// does not create a PKI.
func identify(dataDir string) (id string, landed bool, err error) {
	owner, err := datadir.ReadOwner(dataDir)
	if err == nil {
		return owner.ID(), false, nil
	}
	dir := datadir.PKI.In(dataDir)
	if _, err := os.Stat(filepath.Join(dir, "ca.crt")); errors.Is(err, fs.ErrNotExist) {
		return "", true, nil
	}
	p, err := pki.Load(dir)
	if err != nil {
		return "", true, fmt.Errorf("reading the region's ID: %w", err)
	}
	return datadir.Owner{UID: p.UID()}.ID(), true, nil
}

// releaseNetworks has the CNI plugins release pods' addresses, and rules for host ports in a table
// that other regions share.
func releaseNetworks(ctx context.Context, dataDir string) error {
	conf, err := libcni.NetworkConfFromFile(datadir.CNI.In(dataDir, "10-"+config.Network+".conflist"))
	if err != nil {
		return nil //nolint:nilerr // never configured
	}
	payloads, err := filepath.Glob(datadir.Bin.In(dataDir, "*"))
	if err != nil {
		return err
	}
	cni := libcni.NewCNIConfig(payloads, nil)
	attachments, err := cni.GetCachedAttachments("")
	if err != nil {
		return fmt.Errorf("listing pods' networks: %w", err)
	}
	var all error
	for _, a := range attachments {
		// The cache is shared by the host, so it also has other regions' pods.
		if a.Network != config.Network || !bytes.Contains(a.Config, []byte(strconv.Quote(datadir.CNI.In(dataDir, "ipam")))) {
			continue
		}
		// No namespace, because it was removed with the pod. Plugins must cope with that (CNI spec, DEL).
		runtime := &libcni.RuntimeConf{ContainerID: a.ContainerID, IfName: a.IfName, Args: a.CniArgs, CapabilityArgs: a.CapabilityArgs}
		all = errors.Join(all, cni.DelNetworkList(ctx, conf, runtime))
	}
	return all
}

// unmountBelow unmounts everything strictly below the folders, innermost first.
func unmountBelow(folders ...string) error {
	points, err := MountsBelow(folders...)
	if err != nil {
		return err
	}
	var all error
	for i := len(points) - 1; i >= 0; i-- {
		err := unix.Unmount(points[i], unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(points[i], unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: no longer a mount point
			all = errors.Join(all, fmt.Errorf("unmounting %s: %w", points[i], err))
		}
	}
	return all
}

// MountsBelow lists the mount points that this process sees strictly below the folders, in order of
// mounting.
func MountsBelow(folders ...string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return mountsBelow(string(content), folders), nil
}

// mountsBelow lists the mount points strictly below the folders, in order of mounting
// (proc_pid_mountinfo(5), field 5, in which space, tab, newline and backslash are octal).
func mountsBelow(mountinfo string, folders []string) []string {
	decode := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := decode.Replace(fields[4])
		for _, folder := range folders {
			if strings.HasPrefix(point, strings.TrimSuffix(folder, "/")+"/") {
				out = append(out, point)
			}
		}
	}
	return out
}

// removeCgroups removes the pods' cgroups. With systemd they are slices, which are stopped unless
// another kubelet's pods run in them.
func removeCgroups(ctx context.Context, id string) error {
	const slice = "kubepods.slice"
	if events, err := os.ReadFile(filepath.Join(cgroupMount, slice, "cgroup.events")); err == nil && strings.Contains(string(events), "populated 0") {
		if output, err := exec.CommandContext(ctx, "systemctl", "stop", slice).CombinedOutput(); err != nil {
			return fmt.Errorf("stopping %s: %w: %s", slice, err, strings.TrimSpace(string(output)))
		}
	}
	if id == "" {
		return nil
	}
	roots, err := filepath.Glob(filepath.Join(cgroupMount, "*", config.CgroupRoot(id)))
	if err != nil {
		return err
	}
	roots = append(roots, filepath.Join(cgroupMount, config.CgroupRoot(id)))
	var all error
	for _, root := range roots {
		// The kernel needs a moment after the last process has exited.
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) {
			last = removeTree(root)
			return last == nil, nil
		})
		if err != nil {
			all = errors.Join(all, last)
		}
	}
	return all
}

// removeTree removes a cgroup and its descendants. Their files vanish with them.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing cgroup %s: %w", dir, err)
	}
	return nil
}
