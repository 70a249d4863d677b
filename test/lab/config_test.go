package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lab is as lab.yaml has it, else as it was brought up before, else the default.
func TestChoose(t *testing.T) {
	root := t.TempDir()
	earlier := Lab{Name: "earlier", Root: root}
	if err := os.MkdirAll(earlier.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := earlier.writeFile(fileLab, []byte(`{"machines":[{"name":"n1","kind":"namespace"}]}`)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "lab.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: regiond.dev/v1alpha1\nkind: Lab\nspec: {machines: [{name: m1}, {name: m2}, {name: m3}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, file, want string }{
		{"earlier", file, "m1 m2 m3"}, {"earlier", "", "n1"}, {"new", "", "node1 node2"},
	} {
		l, err := Choose(root, tt.name, tt.file)
		if got := strings.Join(l.Machines(), " "); err != nil || got != tt.want || l.Name != tt.name || l.Root != root {
			t.Errorf("lab %s, file %q: got %s of %s in %s and %v, want %s", tt.name, tt.file, got, l.Name, l.Root, err, tt.want)
		}
	}
	for _, file := range []string{file, "", filepath.Join(root, "missing.yaml")} {
		if _, err := Choose(root, "Not a name", file); err == nil {
			t.Errorf("file %q: got no error for the name \"Not a name\"", file)
		}
	}
}
