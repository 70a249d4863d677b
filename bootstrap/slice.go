package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"regiond.dev/regiond/bootstrap/systemd"
)

// podSlice is what a kubelet with the cgroup driver systemd makes for all pods.
const podSlice = "kubepods.slice"

// stopPodSlice ends the slice of pods on a host with systemd, which keeps it when the last pod is gone. A
// host has one kubelet, so it is ours if a kubelet ran on this data.
func stopPodSlice(ctx context.Context, dataDir string, systemctl systemd.Systemctl) error {
	if _, err := os.Stat(filepath.Join(dataDir, "kubelet")); err != nil || !systemd.Booted() {
		return nil
	}
	out, err := systemctl(ctx, "show", "--property=ActiveState", podSlice)
	if err != nil {
		return err
	}
	if strings.Contains(out, "=active") {
		if _, err := systemctl(ctx, "stop", podSlice); err != nil {
			return err
		}
	}
	// In cgroup v1 the kubelet makes the same tree in every hierarchy, of which systemd knows some only.
	roots, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", podSlice))
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := removeEmptyCgroups(root); err != nil {
			return err
		}
	}
	return nil
}

// removeEmptyCgroups removes a cgroup and those below it. The kernel refuses those that hold a process.
func removeEmptyCgroups(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := syscall.Rmdir(d); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w; a pod's process is left in it, see its cgroup.procs", d, err)
		}
	}
	return nil
}
