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

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/region"
)

// dataDir is what an installed region that was killed leaves, in part.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a [data] dir")
	for _, d := range []string{"etcd/member", "pki/etcd", "run", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"admin.kubeconfig", "pki/sa.pub", ".new-123"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, err := journal.Open(filepath.Join(dir, journal.File), time.Now)
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

func names(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Base(p))
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
	if want := []string{".new-123", "admin.kubeconfig", "etcd", "log", "journal.db", "pki", "run"}; !slices.Equal(names(r.Data), want) {
		t.Errorf("data %q", names(r.Data))
	}
	if !slices.Equal(names(r.Foreign), []string{"notes.txt"}) {
		t.Errorf("foreign %q", r.Foreign)
	}
	var b bytes.Buffer
	r.Print(&b)
	for _, want := range []string{"remove            " + dir + "/etcd\n", "keep              " + dir + "/notes.txt, not made by regiond\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
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

// Reset is given directories by hand: one that is not regiond's is left alone, whatever its entries are called.
func TestDirectoryOfSomethingElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"bin", "etcd", "log", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, "/"} {
		if r, err := bootstrap.PlanReset(t.Context(), d); err == nil || !strings.Contains(err.Error(), d+" is no data directory of regiond") {
			t.Errorf("%s: %v, %+v", d, err, r)
		}
	}
	// Nor is a region started there, whose reset would remove it.
	r := &region.Region{}
	r.Spec.Networks.Provisioning.Address = "192.0.2.1"
	r.Spec.ControlPlane.DataDir = dir
	report, err := bootstrap.Preflight(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "data-directory: "+dir+" holds bin, etcd, log, run") {
		t.Errorf("preflight: %v", err)
	}
	// What a reset leaves that was interrupted just before its end can still be removed.
	if err := os.WriteFile(filepath.Join(dir, "run", "regiond.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := plan(t, dir); len(r.Data) != 4 {
		t.Errorf("%+v", r)
	}
}

func TestRegionOfADamagedJournalIsUnknown(t *testing.T) {
	dir := dataDir(t)
	if err := os.WriteFile(filepath.Join(dir, journal.File), []byte("not bbolt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := plan(t, dir); r.Region != "" || r.Empty() {
		t.Errorf("%+v", r)
	}
}

func TestRemoveDataLeavesWhatIsForeignAndWhatIsMounted(t *testing.T) {
	dir := dataDir(t)
	mount := filepath.Join(dir, "etcd", "member")
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mount: %v (this test needs root)", err)
	}
	report := func(string, ...any) {}
	err := bootstrap.RemoveData(dir, report)
	if uerr := unix.Unmount(mount, 0); uerr != nil {
		t.Fatal(uerr)
	}
	if err == nil || !strings.Contains(err.Error(), "still mounted below "+dir+": "+mount) {
		t.Fatalf("got %v", err)
	}
	if got := names(plan(t, dir).Data); !slices.Contains(got, "pki") {
		t.Fatalf("removed in spite of the mount: %q", got)
	}
	foreign := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.RemoveData(dir, report); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "notes.txt" {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.RemoveData(dir, report); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty data directory is left: %v", err)
	}
}
