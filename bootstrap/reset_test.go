package bootstrap_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/region"
)

// dataDir creates a part of what a killed region with a service leaves behind.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a [data] dir")
	for _, d := range []string{"etcd/member", "openstack/general/mariadb", "pki/etcd", "run", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"admin.kubeconfig", "pki/sa.pub", ".new-123", "run/regiond.lock"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, err := journal.Open(datadir.Journal.In(dir), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.CheckIdentity(journal.Identity{Region: "tokyo", Address: "10.20.0.2", Node: "seed"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func plan(t *testing.T, dir string) bootstrap.Reset {
	t.Helper()
	r, err := bootstrap.PlanReset(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(data []bootstrap.Data) []string {
	var out []string
	for _, d := range data {
		out = append(out, filepath.Base(d.Path))
	}
	return out
}

func TestPlanNamesEverythingAndChangesNothing(t *testing.T) {
	dir := dataDir(t)
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := plan(t, dir)
	if r.Region != "tokyo" || r.Running != 0 || r.Empty() {
		t.Errorf("%+v", r)
	}
	if want := []string{".new-123", "admin.kubeconfig", "openstack", "etcd", "log", "journal.db", "pki", "run"}; !slices.Equal(names(r.Data), want) {
		t.Errorf("got the data %q", names(r.Data))
	}
	if !slices.Equal(r.Foreign, []string{filepath.Join(dir, "notes.txt")}) {
		t.Errorf("got the foreign entries %q", r.Foreign)
	}
	var b bytes.Buffer
	r.Print(&b)
	for _, want := range []string{"remove            " + dir + "/openstack: OpenStack's databases, messages and images\n", "keep              " + dir + "/notes.txt, not created by regiond\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, b.String())
		}
	}
	if again := plan(t, dir); len(again.Data) != len(r.Data) {
		t.Errorf("planning changed something")
	}
}

func TestPlanOfNothingIsEmpty(t *testing.T) {
	if r := plan(t, filepath.Join(t.TempDir(), "none")); !r.Empty() {
		t.Errorf("%+v", r)
	}
}

// The directory for reset is given by hand: one that is not regiond's is left alone, whatever the
// names of its entries.
func TestDirectoryOfSomethingElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"bin", "etcd", "log", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A folder with logs.
	if err := os.WriteFile(filepath.Join(dir, "log", "regiond.log"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, "/"} {
		if r, err := bootstrap.PlanReset(t.Context(), d); err == nil || !strings.Contains(err.Error(), d+" is not a data directory of regiond") {
			t.Errorf("%s: %v, %+v", d, err, r)
		}
	}
	// A region, whose reset would remove the directory, is not started there either.
	r := &region.Region{}
	r.Spec.Networks.Provisioning.Address = "192.0.2.1"
	r.Spec.ControlPlane.DataDir = dir
	report, err := bootstrap.Preflight(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "data-directory: "+dir+" has bin, etcd, log, run") {
		t.Errorf("preflight: %v", err)
	}
}

// Each of these is left behind by some start, installation or interrupted reset.
func TestEvidenceOfADataDirectory(t *testing.T) {
	owner := datadir.Owner{Region: "tokyo", UID: uuid.New()}
	mark := func(t *testing.T, dir string) {
		if _, err := datadir.Mark(dir, owner); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	lock := file("run/regiond.lock", "")
	for _, c := range []struct {
		name string
		make []func(*testing.T, string)
		ours bool
	}{
		{"mark", []func(*testing.T, string){file("etcd/x", ""), mark}, true},
		{"damaged mark", []func(*testing.T, string){file("etcd/x", ""), file("region.json", "{}")}, false},
		{"landed version", []func(*testing.T, string){file("etcd/x", ""), lock, file("journal.db", "damaged")}, true},
		{"landed version, reset interrupted", []func(*testing.T, string){lock, file("pki/ca.crt", "")}, true},
		{"landed version, reset interrupted at its end", []func(*testing.T, string){lock}, true},
		{"installed, never started", []func(*testing.T, string){file("install.json", `{"files": {"/etc/x": "00"}}`)}, true},
		{"another program's install.json", []func(*testing.T, string){file("install.json", `{"name": "x"}`)}, false},
		{"restore that was cut off", []func(*testing.T, string){file("etcd/x", ""), func(t *testing.T, dir string) {
			if err := datadir.BeginRestore(dir, datadir.Restore{Owner: owner, Backup: "tokyo-1"}); err != nil {
				t.Fatal(err)
			}
		}}, true},
		{"another program's restore.json", []func(*testing.T, string){file("etcd/x", ""), file("restore.json", `{"name": "x"}`)}, false},
		{"lock beside another etcd", []func(*testing.T, string){lock, file("etcd/x", "")}, false},
		{"journal alone", []func(*testing.T, string){file("journal.db", ""), file("log/regiond.log", "")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.make {
				f(t, dir)
			}
			r, err := bootstrap.PlanReset(t.Context(), dir)
			if ours := err == nil; ours != c.ours {
				t.Errorf("got %v, %+v; want the directory recognized as regiond's: %t", err, r, c.ours)
			}
		})
	}
}

// The kernel reports mounts by their real path, not by a path below a link.
func TestResetFollowsALinkToTheDataDirectory(t *testing.T) {
	dir := dataDir(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mount := filepath.Join(dir, "log")
	if err := unix.Mount(foreign, mount, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount: %v (this test needs root)", err)
	}
	r := plan(t, link)
	err := r.RemoveData(func(string, ...any) {})
	if uerr := unix.Unmount(mount, 0); uerr != nil {
		t.Fatal(uerr)
	}
	if err == nil || !strings.Contains(err.Error(), mount) {
		t.Errorf("reset of %s with a mount on %s: got %v, want a refusal that names it", link, mount, err)
	}
	if _, err := os.Stat(filepath.Join(foreign, "file")); err != nil {
		t.Errorf("a file behind a mount was removed: %v", err)
	}
	if err := plan(t, link).RemoveData(func(string, ...any) {}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: got %v, want it removed", dir, err)
	}
}

func TestRegionOfADamagedJournalIsUnknown(t *testing.T) {
	dir := dataDir(t)
	if err := os.WriteFile(datadir.Journal.In(dir), []byte("not bbolt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := plan(t, dir); r.Region != "" || r.Empty() {
		t.Errorf("%+v", r)
	}
}

func TestRemoveDataLeavesForeignEntriesAndMounts(t *testing.T) {
	dir := dataDir(t)
	mount := filepath.Join(dir, "etcd", "member")
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mount: %v (this test needs root)", err)
	}
	removeData := func(dir string) error { return bootstrap.Reset{DataDir: dir}.RemoveData(func(string, ...any) {}) }
	err := removeData(dir)
	if uerr := unix.Unmount(mount, 0); uerr != nil {
		t.Fatal(uerr)
	}
	if err == nil || !strings.Contains(err.Error(), "still mounted below "+dir+": "+mount) {
		t.Fatalf("got %v", err)
	}
	if got := names(plan(t, dir).Data); !slices.Contains(got, "pki") {
		t.Fatalf("got %q removed in spite of the mount, want nothing", got)
	}
	foreign := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := removeData(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "notes.txt" {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := removeData(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty data directory: got %v, want it removed", err)
	}
}

// A start that ended before it marked the directory may have logged: that log is not foreign.
func TestEarlyLogIsNotForeign(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"new", nil, nil},
		{"a start that was refused", []string{"log/regiond.log", "log/regiond-2026-11-30T22-26-01.000.log"}, nil},
		{"another program's log", []string{"log/regiond.log", "log/nginx.log"}, []string{"log"}},
		{"another etcd", []string{"log/regiond.log", "etcd/member"}, []string{"etcd", "log"}},
	} {
		dir := t.TempDir()
		for _, f := range c.files {
			path := filepath.Join(dir, f)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := bootstrap.ForeignEntries(dir)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}
