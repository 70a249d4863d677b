package configgen

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFolderRemovesFilesOfEarlierRenders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	render := func(clean bool, names ...string) {
		t.Helper()
		f, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, n := range names {
			if err := f.Write(Output{Name: n, Content: []byte(n)}); err != nil {
				t.Fatal(err)
			}
		}
		if clean {
			if err := f.Clean(); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := func() []string {
		var all []string
		err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, p)
			if rel != "." && rel != writtenFile {
				all = append(all, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	render(true, "nodes/node1/nova.conf", "pods/nova.conf")
	render(false, "nodes/node2/nova.conf") // interrupted
	render(true, "pods/nova.conf", "pods/new.conf")
	if got, want := files(), []string{"pods", "pods/new.conf", "pods/nova.conf"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// The operator's own files stay.
	own := filepath.Join(dir, "pods", "notes.txt")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	render(true)
	if got, want := files(), []string{"pods", "pods/notes.txt"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFolderOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(dir); err == nil || !strings.Contains(err.Error(), "thesis.tex") || !strings.Contains(err.Error(), "empty folder") {
		t.Errorf("got %v", err)
	}
}
