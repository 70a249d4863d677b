package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/atomicfile"
)

func contentOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteReplacesContentAndMode(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	path := filepath.Join(t.TempDir(), "file")
	for _, mode := range []fs.FileMode{0o600, 0o644} {
		if err := atomicfile.Write(path, []byte(mode.String()), mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, path); got != mode.String() || info.Mode() != mode {
			t.Errorf("got %q with mode %s under umask 077, want %q with mode %s", got, info.Mode(), mode, mode)
		}
	}
	if names := namesIn(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left beside the file: %q", names)
	}
}

func TestReadersSeeTheOldFileUntilCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, path); got != "old" {
		t.Errorf("before the commit the file holds %q, want %q", got, "old")
	}
	if ok, err := filepath.Match(atomicfile.Temporary("file"), filepath.Base(f.Name())); !ok || err != nil {
		t.Errorf("%s does not match %s (%v)", f.Name(), atomicfile.Temporary("file"), err)
	}
	if err := f.Commit(0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Discard(); err != nil {
		t.Errorf("Discard after Commit: %v", err)
	}
	if got := contentOf(t, path); got != "new" {
		t.Errorf("after the commit the file holds %q, want %q", got, "new")
	}
}

func TestFailuresLeaveTheOldFileAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "content"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("x"), 0o644); err == nil {
		t.Error("a folder was replaced by a file")
	}
	f, err := atomicfile.Create(filepath.Join(dir, "discarded"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(0o644); err == nil {
		t.Error("a discarded file was committed")
	}
	if names := namesIn(t, dir); len(names) != 1 || names[0] != "folder" {
		t.Errorf("the folder holds %q, want only %q", names, "folder")
	}
}
