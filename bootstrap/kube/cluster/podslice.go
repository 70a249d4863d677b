package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/systemd"
)

// podSlice is the slice that a kubelet with the systemd cgroup driver creates for all pods.
const podSlice = "kubepods.slice"

// StopPodSlice ends the slice of pods on a host with systemd, which keeps it when the last pod is
// gone. The slice is that of all kubelets of a host: when a process is left in it, after this
// region's pods were ended, it is another's and stays.
func StopPodSlice(ctx context.Context, dataDir string, systemctl systemd.Systemctl, log *slog.Logger) error {
	if _, err := os.Stat(datadir.Kubelet.In(dataDir)); err != nil || !systemd.Booted() {
		return nil
	}
	// In cgroup v1 the kubelet creates the same tree in every hierarchy, and systemd knows only some
	// of them.
	legacy, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", podSlice))
	if err != nil {
		return err
	}
	for _, root := range append(legacy, filepath.Join("/sys/fs/cgroup", podSlice)) {
		left, err := processesIn(root)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			log.Warn("keeping the slice of pods, because another kubelet's pods run in it", slog.String("cgroup", root), slog.Any("processes", left))
			return nil
		}
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
	for _, root := range legacy {
		if err := removeEmptyCgroups(root); err != nil {
			return err
		}
	}
	return nil
}

// processesIn lists the processes in a cgroup and its descendants.
func processesIn(root string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or never created
		}
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		all = append(all, strings.Fields(string(b))...)
		return err
	})
	return all, err
}

// removeEmptyCgroups removes a cgroup and its descendants. The kernel refuses to remove one with a
// process.
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
			return fmt.Errorf("remove cgroup %s: %w; it still has a pod's process, see its cgroup.procs", d, err)
		}
	}
	return nil
}
