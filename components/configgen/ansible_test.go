//go:build integration

package configgen

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/region"
)

// Debian's ansible renders the translated templates to the same bytes.
func TestAnsibleRendersTheSameFiles(t *testing.T) {
	real, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	made := mustSource(t, nil)
	made.options = nil // the test uses names that no release has
	for name, tc := range map[string]struct {
		s     *Source
		c     Cluster
		nodes []Node
	}{
		"made up": {made, hard(), hardNodes},
		"carried": {real, realCluster(t, real, region.ReleaseEpoxy), realNodes},
	} {
		t.Run(name, func(t *testing.T) {
			want := applied(t, tc.s, tc.c, tc.nodes)
			dir, out := t.TempDir(), t.TempDir()
			folder, err := OpenFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(tc.s.Ansible(tc.c, tc.nodes, folder.Write), folder.Close()); err != nil {
				t.Fatal(err)
			}
			runAnsible(t, tc.s, dir, out)
			for path, content := range want {
				got, err := os.ReadFile(filepath.Join(out, path))
				if err != nil || string(got) != content {
					t.Errorf("%s (%v):\n%s\nwant:\n%s", path, err, got, content)
				}
			}
		})
	}
}

// runAnsible places the files of every host below OUT/HOST. Each role of pods gets a host with the
// role's name.
func runAnsible(t *testing.T, s *Source, dir, out string) {
	t.Helper()
	var b strings.Builder
	for _, role := range s.Roles() {
		if role != RoleCompute {
			fmt.Fprintf(&b, "[openstack_lab_%s]\n%s\n", role, role)
		}
	}
	fmt.Fprintf(&b, "[all:vars]\nansible_connection=local\nansible_python_interpreter=/usr/bin/python3\nopenstack_root=%s/{{ inventory_hostname }}\n",
		out)
	if err := os.WriteFile(filepath.Join(dir, "test.ini"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ansible-playbook", "-i", "inventory.yaml", "-i", "test.ini", "playbook.yaml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "ANSIBLE_NOCOWS=1", "ANSIBLE_PIPELINING=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
