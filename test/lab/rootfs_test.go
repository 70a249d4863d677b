package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A version is unpacked once; of the others those are kept that a lab uses.
func TestEnsureRootfs(t *testing.T) {
	labs, images := t.TempDir(), t.TempDir()
	unpacked := func(version string) string { return filepath.Join(images, "unpacked", version) }
	for _, dir := range []string{unpacked("used"), unpacked("old"), filepath.Join(labs, "default", "machines", "n1")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(unpacked("used"), filepath.Join(labs, "default", "machines", "n1", nodeImage)); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for range 2 {
		dir, err := EnsureRootfs(labs, images, "new", func(dir string) error {
			calls++
			return os.Mkdir(dir, 0o755)
		})
		if err != nil || dir != unpacked("new") {
			t.Errorf("got %s, %v; want %s", dir, err, unpacked("new"))
		}
	}
	left, err := filepath.Glob(unpacked("*"))
	if want := []string{unpacked("new"), unpacked("used")}; err != nil || !slices.Equal(left, want) || calls != 1 {
		t.Errorf("got %v, %v, unpacked %d times; want %v, once", left, err, calls, want)
	}
}
