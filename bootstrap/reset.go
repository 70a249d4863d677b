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

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/bootstrap/kube/cluster"
	"regiond.dev/regiond/bootstrap/systemd"
)

// stopTimeout bounds the wait for a running regiond to stop: its components have 15 s each.
const stopTimeout = 3 * time.Minute

// Reset is the plan of removing a region from this host. Planning it changes nothing.
type Reset struct {
	DataDir string
	// Region that the data directory belongs to, empty if unknown.
	Region string
	// Running is the pid of the running regiond, 0 for none.
	Running int
	// Installed is what was installed outside the data directory.
	Installed install.Removal
	// Data are the entries of the data directory to remove, in order; Foreign those that regiond did
	// not create.
	Data    []Data
	Foreign []string
}

// Data is an entry of the data directory and what is lost with it.
type Data struct{ Path, Holds string }

// PlanReset observes the host and returns the plan.
func PlanReset(ctx context.Context, dataDir string) (Reset, error) {
	r := Reset{}
	var err error
	if r.DataDir, err = datadir.Resolve(dataDir); err != nil {
		return r, err
	}
	if r.Running, err = datadir.LockOwner(r.DataDir); err != nil {
		return r, err
	}
	found, err := os.ReadDir(r.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	for _, e := range datadir.Entries() {
		for _, f := range found {
			if of, known := datadir.Find(f.Name()); known && of.Name == e.Name {
				r.Data = append(r.Data, Data{Path: filepath.Join(r.DataDir, f.Name()), Holds: e.Holds})
			}
		}
	}
	for _, f := range found {
		if _, known := datadir.Find(f.Name()); !known {
			r.Foreign = append(r.Foreign, filepath.Join(r.DataDir, f.Name()))
		}
	}
	if len(r.Data) > 0 {
		ours, err := datadir.IsOurs(r.DataDir)
		if err != nil {
			return r, err
		}
		if !ours {
			return r, fmt.Errorf("%s is not a data directory of regiond: it has neither %s nor the lock, journal and certificates of a "+
				"region that was started. Nothing was changed; pass the right directory with --data-dir", r.DataDir, datadir.Marker)
		}
	}
	if r.Installed, err = install.PlanRemoval(r.DataDir); err != nil {
		return r, err
	}
	r.Region = regionOf(ctx, r.DataDir)
	return r, nil
}

// foreignEntries lists entries that others created in a directory under names that regiond uses.
func foreignEntries(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if ours, err := datadir.IsOurs(dir); ours || err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, known := datadir.Find(e.Name()); known {
			names = append(names, e.Name())
		}
	}
	if isEarlyLog(dir, names) {
		return nil, nil
	}
	return names, nil
}

// isEarlyLog reports whether the entries are only the log of a regiond that ended before it marked
// the directory.
func isEarlyLog(dir string, names []string) bool {
	if !slices.Equal(names, []string{string(datadir.Log)}) {
		return false
	}
	files, err := os.ReadDir(datadir.Log.In(dir))
	return err == nil && !slices.ContainsFunc(files, func(f os.DirEntry) bool {
		own, err := filepath.Match("regiond*.log", f.Name()) // including rotated ones
		return err != nil || !own
	})
}

// regionOf returns the region's name from the running regiond, which holds the journal open, or
// else from the mark or the journal.
func regionOf(ctx context.Context, dataDir string) string {
	if s, err := daemon.Fetch(ctx, daemon.SocketPath(dataDir)); err == nil {
		return s.Region
	}
	if o, err := datadir.ReadOwner(dataDir); err == nil {
		return o.Region
	}
	id, err := journal.ReadIdentity(datadir.Journal.In(dataDir))
	if err != nil {
		return "" // damaged, but reset must work nevertheless
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
	line("stop              every pod of this control plane; remove its mounts, network devices, nftables tables and cgroups")
	for _, d := range r.Data {
		line("remove            %s: %s", d.Path, d.Holds)
	}
	for _, p := range slices.Concat(r.Installed.Files, r.Installed.Directories) {
		line("remove            %s", p)
	}
	for _, p := range r.Installed.Kept {
		line("keep              %s, changed since it was installed", p)
	}
	for _, p := range r.Foreign {
		line("keep              %s, not created by regiond", p)
	}
	line("keep              images, files with credentials, and all data on the servers")
}

// Execute executes the plan. It may be repeated after any interruption, and does not need the API.
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
		if err := cluster.StopPodSlice(ctx, r.DataDir, systemctl, log); err != nil {
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

// stop stops a regiond that is not a service.
func (r Reset) stop(ctx context.Context, report func(string, ...any)) error {
	pid, err := datadir.LockOwner(r.DataDir)
	if err != nil || pid == 0 {
		return err
	}
	report("stopping regiond, pid %d", pid)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("regiond is running, pid %d, and can't be stopped: %w; stop it, then rerun reset", pid, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, stopTimeout, true, func(context.Context) (bool, error) {
		now, err := datadir.LockOwner(r.DataDir)
		return now != pid, err
	})
	if err != nil {
		return fmt.Errorf("regiond, pid %d, did not stop: %w; kill -9 %d, then rerun reset", pid, err, pid)
	}
	return nil
}

// tearDown removes everything that the control plane left on the host. It holds the lock, so that
// no regiond starts.
func (r Reset) tearDown(ctx context.Context, log *slog.Logger, report func(string, ...any)) error {
	lock, err := datadir.TakeLock(r.DataDir)
	if err != nil {
		return err
	}
	report("stopping pods and removing mounts, network devices and cgroups")
	err = cluster.Teardown(ctx, r.DataDir, log)
	if err != nil {
		err = fmt.Errorf("%w\nThe data directory was kept; rerun reset", err)
	}
	return errors.Join(err, lock.Release())
}

func (r Reset) removeData(report func(string, ...any)) error {
	// List the entries again, because stopping and tearing down wrote and removed files.
	found, err := os.ReadDir(r.DataDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range datadir.Entries() {
		for _, f := range found {
			of, known := datadir.Find(f.Name())
			if !known || of.Name != e.Name {
				continue
			}
			if err := r.remove(filepath.Join(r.DataDir, f.Name())); err != nil {
				return err
			}
			report("removed %s", filepath.Join(r.DataDir, f.Name()))
		}
	}
	// It stays if it has foreign entries or is a mount point.
	err = syscall.Rmdir(r.DataDir)
	if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("remove %s: %w", r.DataDir, err)
	}
	return nil
}

// remove removes an entry unless something is mounted in the data directory: files of the host or
// of a pod's volume behind a mount would be removed, too. It checks before each entry, because
// others may mount at any time.
func (r Reset) remove(path string) error {
	left, err := cluster.MountsBelow(r.DataDir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("still mounted below %s: %s; unmount them, then rerun reset", r.DataDir, strings.Join(left, ", "))
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove %s: %w; rerun reset", path, err)
	}
	return nil
}
