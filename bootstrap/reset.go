package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/bootstrap/kube/cluster"
	"regiond.dev/regiond/bootstrap/status"
	"regiond.dev/regiond/bootstrap/systemd"
)

// made are the entries of a data directory that regiond makes, as patterns, in the order in which reset
// removes them: the last ones are what a reset that was interrupted needs to continue.
var made = []string{
	".new-*", ".install.json.new-*", "admin.kubeconfig", "bin", "cni", "containerd", "etcd", "kubelet", "log",
	journal.File, "config", dirPKI, dirRun, "install.json",
}

// stopTimeout bounds the wait for a running regiond to stop: its components have 15 s each.
const stopTimeout = 3 * time.Minute

// Reset is what giving a region up would do on this host. Planning it changes nothing.
type Reset struct {
	DataDir string
	// Region that the data directory belongs to, empty when that can't be told any more.
	Region string
	// Running regiond, 0 for none.
	Running int
	// Installed is what was put outside the data directory.
	Installed install.Removal
	// Data are the entries of the data directory to remove, Foreign those that regiond did not make.
	Data    []string
	Foreign []string
}

// PlanReset looks at what there is.
func PlanReset(ctx context.Context, dataDir string) (Reset, error) {
	r := Reset{DataDir: filepath.Clean(dataDir)}
	var err error
	if r.Running, err = LockOwner(r.DataDir); err != nil {
		return r, err
	}
	if r.Installed, err = install.PlanRemoval(r.DataDir); err != nil {
		return r, err
	}
	r.Region = regionOf(ctx, r.DataDir)
	entries, err := os.ReadDir(r.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	rank := map[string]int{}
	for _, e := range entries {
		path := filepath.Join(r.DataDir, e.Name())
		if rank[path] = madeAt(e.Name()); rank[path] < 0 {
			r.Foreign = append(r.Foreign, path)
			continue
		}
		r.Data = append(r.Data, path)
	}
	slices.SortStableFunc(r.Data, func(a, b string) int { return rank[a] - rank[b] })
	if len(r.Data) > 0 && !isDataDir(r.DataDir) {
		return r, fmt.Errorf("%s is no data directory of regiond: it has none of %s. Nothing was done; name the right one by --data-dir",
			r.DataDir, strings.Join(evidence, ", "))
	}
	return r, nil
}

// madeAt is the place of an entry of a data directory in made, -1 for one that regiond does not make.
func madeAt(name string) int {
	return slices.IndexFunc(made, func(pattern string) bool {
		ok, err := filepath.Match(pattern, name)
		return err == nil && ok
	})
}

// taken lists what others made in a directory under names that regiond would use there.
func taken(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || isDataDir(dir) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if madeAt(e.Name()) >= 0 {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// evidence are files that only regiond makes. Names like bin, log and run are in many directories: what they hold
// is removed only beside one of these. The lock is made first and, but for install.json, removed last.
var evidence = []string{journal.File, filepath.Join(dirRun, lockFile), "install.json", filepath.Join("log", "regiond.log")}

func isDataDir(dir string) bool {
	return slices.ContainsFunc(evidence, func(name string) bool {
		info, err := os.Lstat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// regionOf asks the running regiond, which holds the journal open, or else the journal.
func regionOf(ctx context.Context, dataDir string) string {
	if s, err := status.Fetch(ctx, status.SocketPath(dataDir)); err == nil {
		return s.Region
	}
	id, err := journal.ReadIdentity(filepath.Join(dataDir, journal.File))
	if err != nil {
		return "" // damaged: reset must work all the same
	}
	return id.Region
}

// Empty reports whether there is nothing to reset.
func (r Reset) Empty() bool {
	return r.Running == 0 && len(r.Data) == 0 && len(r.Installed.Files) == 0 && r.Installed.Unit == ""
}

// Print writes the plan.
func (r Reset) Print(w io.Writer) {
	line := func(format string, a ...any) { fmt.Fprintf(w, format+"\n", a...) }
	if r.Installed.Unit != "" {
		line("stop and disable  service %s", r.Installed.Unit)
	}
	if r.Running != 0 {
		line("stop              regiond, pid %d, and its control plane", r.Running)
	}
	line("end               every pod of this control plane; remove its mounts, network devices, nftables tables and cgroups")
	for _, p := range slices.Concat(r.Data, r.Installed.Files, r.Installed.Directories) {
		line("remove            %s", p)
	}
	for _, p := range r.Installed.Kept {
		line("keep              %s, changed since it was installed", p)
	}
	for _, p := range r.Foreign {
		line("keep              %s, not made by regiond", p)
	}
	line("keep              images, credentials files, and what is on the servers")
}

// Execute carries the plan out. It may be repeated after any interruption, and needs no API.
func (r Reset) Execute(ctx context.Context, systemctl systemd.Systemctl, log *slog.Logger, report func(format string, a ...any)) error {
	if err := r.Installed.Stop(ctx, systemctl); err != nil {
		return err
	}
	if err := r.stop(ctx, report); err != nil {
		return err
	}
	if _, err := os.Stat(r.DataDir); err == nil {
		if err := r.tearDown(ctx, log, report); err != nil {
			return err
		}
		if err := stopPodSlice(ctx, r.DataDir, systemctl); err != nil {
			return err
		}
	}
	if err := r.Installed.Remove(ctx, systemctl); err != nil {
		return err
	}
	for _, f := range r.Installed.Files {
		report("removed %s", f)
	}
	return r.removeData(report)
}

// stop ends a regiond that is not a service.
func (r Reset) stop(ctx context.Context, report func(string, ...any)) error {
	pid, err := LockOwner(r.DataDir)
	if err != nil || pid == 0 {
		return err
	}
	report("stopping regiond, pid %d", pid)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("regiond runs, pid %d, and can't be stopped: %w; stop it, then reset again", pid, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, stopTimeout, true, func(context.Context) (bool, error) {
		now, err := LockOwner(r.DataDir)
		return now != pid, err
	})
	if err != nil {
		return fmt.Errorf("regiond, pid %d, did not stop: %w; kill -9 %d, then reset again", pid, err, pid)
	}
	return nil
}

// tearDown removes what the control plane left on the host, with the lock held so that none starts.
func (r Reset) tearDown(ctx context.Context, log *slog.Logger, report func(string, ...any)) error {
	lock, err := TakeLock(r.DataDir)
	if err != nil {
		return err
	}
	report("ending pods and removing mounts, network devices and cgroups")
	err = cluster.Teardown(ctx, r.DataDir, log)
	if err != nil {
		err = fmt.Errorf("%w\nThe data directory was kept; reset again", err)
	}
	return errors.Join(err, lock.Release())
}

func (r Reset) removeData(report func(string, ...any)) error {
	// A mount that is left would be emptied, with whatever of the host or of a pod's volume it shows.
	left, err := cluster.MountsBelow(r.DataDir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("still mounted below %s: %s; unmount them, then reset again", r.DataDir, strings.Join(left, ", "))
	}
	// Looked at again: stopping and tearing down wrote and removed files.
	for _, pattern := range made {
		paths, err := filepath.Glob(filepath.Join(escape(r.DataDir), pattern))
		if err != nil {
			return err
		}
		for _, p := range paths {
			if err := os.RemoveAll(p); err != nil {
				return fmt.Errorf("remove %s: %w; reset again", p, err)
			}
			report("removed %s", p)
		}
	}
	// Stays when it holds something else or is a mount point.
	err = syscall.Rmdir(r.DataDir)
	if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("remove %s: %w", r.DataDir, err)
	}
	return nil
}

// escape makes a path literal in a pattern of filepath.Glob.
func escape(path string) string {
	var out []rune
	for _, c := range path {
		if slices.Contains([]rune{'*', '?', '[', '\\'}, c) {
			out = append(out, '\\')
		}
		out = append(out, c)
	}
	return string(out)
}
