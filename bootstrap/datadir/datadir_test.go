package datadir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/uuid"

	"regiond.dev/regiond/bootstrap/datadir"
)

func TestFindKnowsEntriesAndTemporaryFiles(t *testing.T) {
	for name, want := range map[string]datadir.Name{
		"etcd": datadir.Etcd, "openstack": datadir.OpenStack, "journal.db": datadir.Journal,
		".region.json.new-1": datadir.Marker, ".install.json.new-77": datadir.InstallRecord, // written by every version
		".new-123": datadir.AdminKubeconfig, ".pki-tmp-1": datadir.AdminKubeconfig, // of earlier versions
	} {
		if e, ok := datadir.Find(name); !ok || e.Name != want {
			t.Errorf("%s belongs to %q (%t), want %q", name, e.Name, ok, want)
		}
	}
	for _, name := range []string{"notes.txt", "etcd.old", ".etcd", "new-1", "Etcd", "lost+found"} {
		if e, ok := datadir.Find(name); ok {
			t.Errorf("%s is recognized as %q, want as unknown", name, e.Name)
		}
	}
}

// The evidence that an interrupted reset needs to resume is removed last.
func TestEvidenceIsRemovedLast(t *testing.T) {
	all := datadir.Entries()
	if last := all[len(all)-1].Name; last != datadir.Marker {
		t.Errorf("%q is removed last, want the mark", last)
	}
	dir := t.TempDir()
	if err := datadir.Run.Make(dir); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"run/regiond.lock", "journal.db", "region.json"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := datadir.ReadOwner(dir); err == nil {
		t.Fatal("an empty mark was read")
	}
	if err := os.Remove(datadir.Marker.In(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Mark(dir, datadir.Owner{Region: "tokyo", UID: uuid.New()}); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if ours, err := datadir.IsOurs(dir); err != nil || !ours {
			t.Errorf("before %s is removed: got %t %v, want the directory recognized as regiond's", e.Name, ours, err)
		}
		if err := os.RemoveAll(e.Name.In(dir)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMarkIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	first := datadir.Owner{Region: "tokyo", UID: uuid.MustParse("0a1b2c3d-0000-4000-8000-000000000001")}
	for _, o := range []datadir.Owner{first, {Region: "osaka", UID: uuid.New()}} {
		got, err := datadir.Mark(dir, o)
		if err != nil || got != first {
			t.Errorf("marking for %s: got %+v, %v; want the first mark %+v", o.Region, got, err, first)
		}
	}
	if id := first.ID(); id != "0a1b2c3d" {
		t.Errorf("got the ID %q, want the first eight digits of the UID", id)
	}
}

func TestFoldersHaveTheirModesUnderAnyUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	for _, e := range datadir.Entries() {
		if !e.Mode.IsDir() {
			if err := e.Name.Make(dir); err == nil {
				t.Errorf("%s was created as a folder", e.Name)
			}
			continue
		}
		if err := os.Mkdir(e.Name.In(dir), 0o755); err != nil { // as left by an earlier start with this umask
			t.Fatal(err)
		}
		if err := e.Name.Make(dir); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(e.Name.In(dir))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != e.Mode {
			t.Errorf("%s has mode %s, want %s", e.Name, info.Mode(), e.Mode)
		}
	}
}

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": "real", "dangling": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"real": "real", "link": "real", "link/new": "real/new", "new/deep": "new/deep", "real/../link/": "real",
	} {
		got, err := datadir.Resolve(filepath.Join(dir, path))
		if err != nil || got != filepath.Join(dir, want) {
			t.Errorf("Resolve(%s) = %s, %v; want %s", path, got, err, filepath.Join(dir, want))
		}
	}
	for _, path := range []string{"dangling", "dangling/data"} {
		if got, err := datadir.Resolve(filepath.Join(dir, path)); err == nil {
			t.Errorf("Resolve(%s) = %s, want an error that names the link", path, got)
		}
	}
}

func TestModes(t *testing.T) {
	for _, e := range datadir.Entries() {
		if e.Owner == "" || e.Holds == "" || e.Mode&^(fs.ModeDir|fs.ModePerm) != 0 {
			t.Errorf("row %+v is incomplete", e)
		}
	}
}
