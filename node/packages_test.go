package node

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReleaseOfThePackages(t *testing.T) {
	root := t.TempDir()
	o := Observer{Root: root}
	if got := o.packageVersion("nova-compute"); got != "" {
		t.Errorf("without dpkg: %q", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ status, want string }{
		"installed":      {"Package: nova-common\nStatus: install ok installed\nVersion: 1\n\nPackage: nova-compute\nStatus: install ok installed\nDescription: x\n more: y\nVersion: 2:31.0.0-6\n\nPackage: z\nVersion: 3\n", "2:31.0.0-6"},
		"removed":        {"Package: nova-compute\nStatus: deinstall ok config-files\nVersion: 2:31.0.0-6\n", ""},
		"another one":    {"Package: nova-compute-kvm\nStatus: install ok installed\nVersion: 2:31.0.0-6\n", ""},
		"not of this OS": {"", ""},
	} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), []byte(c.status), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := o.packageVersion("nova-compute"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
