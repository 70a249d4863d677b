package templates_test

import (
	"io/fs"
	"strings"
	"testing"

	"regiond.dev/regiond/components/templates"
)

// TestMiddlewareNamesItsEndpoint: without a region and an interface, keystonemiddleware validates
// tokens at whichever identity endpoint comes first in the catalogue.
func TestMiddlewareNamesItsEndpoint(t *testing.T) {
	found := 0
	err := fs.WalkDir(templates.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(templates.FS, path)
		if err != nil {
			return err
		}
		_, section, ok := strings.Cut(string(b), "\n[keystone_authtoken]\n")
		if !ok {
			return nil
		}
		found++
		section, _, _ = strings.Cut(section, "\n[")
		for _, line := range []string{"\nregion_name = {{ .keystone.region }}\n", "\ninterface = internal\n"} {
			if !strings.Contains(section, line) {
				t.Errorf("%s: [keystone_authtoken] lacks %q", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 4 {
		t.Errorf("got %d files with [keystone_authtoken], want those of glance, neutron, nova and placement", found)
	}
}
