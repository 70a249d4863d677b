package bootstrap_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/components/openstack"
)

// owners create the entries of the data directory as in a region. The integration test of
// bootstrap/kube/cluster compares entries that the control plane's start creates with the table.
var owners = map[datadir.Name]func(dir string) error{
	datadir.Run: func(dir string) error {
		lock, err := datadir.TakeLock(dir)
		if err != nil {
			return err
		}
		return lock.Release()
	},
	datadir.Journal: func(dir string) error {
		j, err := journal.Open(datadir.Journal.In(dir), time.Now)
		if err != nil {
			return err
		}
		return j.Close()
	},
	datadir.PKI: func(dir string) error {
		p, err := pki.Load(datadir.PKI.In(dir))
		if err != nil {
			return err
		}
		_, err = datadir.Mark(dir, datadir.Owner{Region: "tokyo", UID: p.UID()})
		return err
	},
	datadir.Marker: nil, // with the PKI
	datadir.Backup: func(dir string) error { return datadir.Backup.Make(dir) },
	datadir.Restoring: func(dir string) error {
		return datadir.BeginRestore(dir, datadir.Restore{Owner: datadir.Owner{Region: "tokyo", UID: uuid.New()}, Backup: "tokyo-1"})
	},
	datadir.InstallRecord: func(dir string) error {
		host, err := os.MkdirTemp("", "regiond-owners-")
		if err != nil {
			return err
		}
		err = install.Install(context.Background(), install.Config{DataDir: dir, Program: "/proc/self/comm", Region: []byte("x"),
			Paths:     install.Paths{Program: filepath.Join(host, "regiond"), RegionFile: filepath.Join(host, "region.yaml"), Unit: filepath.Join(host, "unit")},
			Systemctl: func(context.Context, ...string) (string, error) { return "", nil }, Report: func(string, ...any) {}})
		return errors.Join(err, os.RemoveAll(host))
	},
	datadir.OpenStack: func(dir string) error { return os.MkdirAll(openstack.DataDir(dir, "general"), 0o711) },
	datadir.Log: func(dir string) error {
		if err := datadir.Log.Make(dir); err != nil {
			return err
		}
		return os.WriteFile(bootstrap.LogPath(dir), nil, 0o600)
	},
	datadir.AdminKubeconfig: byControlPlane(datadir.AdminKubeconfig), datadir.Bin: byControlPlane(datadir.Bin), datadir.CNI: byControlPlane(datadir.CNI),
	datadir.Config: byControlPlane(datadir.Config), datadir.Containerd: byControlPlane(datadir.Containerd),
	datadir.Etcd: byControlPlane(datadir.Etcd), datadir.Kubelet: byControlPlane(datadir.Kubelet),
}

func byControlPlane(n datadir.Name) func(string) error {
	return func(dir string) error {
		if e, _ := datadir.Find(string(n)); e.Mode.IsDir() {
			return n.Make(dir)
		}
		return os.WriteFile(n.In(dir), nil, 0o600)
	}
}

// Reset would keep unknown entries as foreign: it once kept OpenStack's databases, and the next
// region was refused because of them.
func TestResetKnowsEveryOwnersEntries(t *testing.T) {
	dir := t.TempDir()
	for _, e := range datadir.Entries() {
		create, ok := owners[e.Name]
		if !ok {
			t.Errorf("no owner creates %s; add it here", e.Name)
		}
		if create == nil {
			continue
		}
		if err := create(dir); err != nil {
			t.Fatalf("%s, created by %s: %v", e.Name, e.Owner, err)
		}
	}
	r := plan(t, dir)
	if len(r.Foreign) > 0 || len(r.Data) != len(datadir.Entries()) || r.Region != "tokyo" {
		t.Errorf("region %q: got %q to remove and %q to keep, want all %d entries of the table removed", r.Region, names(r.Data), r.Foreign, len(datadir.Entries()))
	}
	if err := r.RemoveData(func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory: got %v, want it removed", err)
	}
}
