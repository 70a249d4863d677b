// Package testassets lets envtest use the project's own binary, whose applets include the API
// server and etcd.
package testassets

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir creates a folder with the programs that envtest starts, for
// Environment.BinaryAssetsDirectory. The binary is a built regiond; tests get its path from a flag,
// so that they never link Kubernetes themselves.
func Dir(t testing.TB, regiond string) string {
	t.Helper()
	target, err := filepath.Abs(regiond)
	if err == nil {
		_, err = os.Stat(target)
	}
	if err != nil {
		t.Fatalf("binary for envtest: %v; build it first", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
