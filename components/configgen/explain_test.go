package configgen

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	s := mustSource(t, nil)
	c := testCluster(`{"nova": {"virt_type": "qemu", "conf": {"DEFAULT": {"reserved_host_memory_mb": 5}}}}`, "",
		own("node1", `{"nova": {"conf": {"pci": {"alias": ["x", "y"]}}}}`, `{"nova": {"virt_type": "kvm"}}`))
	nv, _, err := s.NodeValues(mustValues(t, s, c), node1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ file, option string }{
		{"nova.conf", "libvirt.virt_type"},
		{"/etc/nova/nova.conf", "DEFAULT.reserved-host-memory-mb"},
		{"nova/nova.conf", "database.connection"},
		{"nova.conf", "libvirt.cpu_mode"},
		{"nova.conf", "pci.alias"},
		{"nova.conf", "api.auth_strategy"},
		{"agent.ini", "ovs.bridge_mappings"},
		{"nova-compute.service", "ExecStart"},
	} {
		e, err := s.Explain(nv, RoleCompute, tc.file, tc.option)
		if err != nil {
			t.Errorf("%v: %v", tc, err)
			continue
		}
		var b strings.Builder
		if err := e.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("explain", strings.ReplaceAll(tc.option, ".", "-")+".txt"), []byte(b.String()))
	}
}

func TestExplainMissingOption(t *testing.T) {
	s := mustSource(t, nil)
	v := mustValues(t, s, testCluster("", ""))
	for option, want := range map[string]string{
		"api.auth_stratgy": "sets no [api] auth_stratgy; did you mean api.auth_strategy?",
		"DEFAULT.my_ip":    "the release has it; set it with nova.conf.DEFAULT.my_ip",
		"libvirt.live_migration_parallel_connections": "nova of epoxy has none; it exists in gazpacho",
		"debug": "is not SECTION.OPTION",
	} {
		if _, err := s.Explain(v, "nova", "nova.conf", option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", option, err, want)
		}
	}
	if _, err := s.Explain(v, "nova", "nvoa.conf", "a.b"); err == nil || !strings.Contains(err.Error(),
		"role nova has no file nvoa.conf; did you mean nova.conf?") {
		t.Error(err)
	}
	if roles := s.RolesOf("nova.conf"); !slices.Equal(roles, []string{"compute", "nova"}) {
		t.Error(roles)
	}
}

func TestApplyToFolder(t *testing.T) {
	s := mustSource(t, nil)
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 { // the second run replaces the files
		folder, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		warnings, err := s.Apply(testCluster("", ""), []Node{node1}, folder.Write)
		if err := errors.Join(err, folder.Close()); err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
	}
	for name, mode := range map[string]os.FileMode{".": os.ModeDir | 0o700, "nova/etc/nova": os.ModeDir | 0o700, "nova/etc/nova/keys": 0o600,
		"nodes/node1/etc/nova/nova.conf": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "nova/etc/nova/.*"))
	if err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// Load reports all problems of a folder at once.
func TestLoadReportsAllProblems(t *testing.T) {
	_, err := testSource(t, map[string]string{
		"values/defaults.yaml": "nova:\n  debug:\n  mode: 0640\n  debug: 1\n",
		"values/epoxy.yaml":    "- 1\n",
		"files/nova/keys":      "{{ len .x }}",
		"services.yaml":        "- name: a.service\n  files: [/nowhere]\n",
		"files.yaml": "- {path: etc/x, template: nova/keys, roles: [nova], mode: \"0999\", owner: root, group: root}\n" +
			"- {path: /y, template: nova/none, mode: \"0600\", owner: root, group: root}\n",
	})
	if err == nil {
		t.Fatal("no error")
	}
	mustSay(t, err.Error(), `values/defaults.yaml:2: nova.debug is empty; write a value, "" or []`,
		"values/defaults.yaml:3: nova.mode is 0640, not a plain decimal number; put it in quotes",
		"values/defaults.yaml:4: nova.debug is given twice", "values/epoxy.yaml:1: must be a mapping", `nova/keys:1: function "len" not defined`,
		"a.service reads /nowhere", `files.yaml: item 1 (etc/x): file "etc/x": not an absolute, clean path`, `mode "0999" is not a file mode`,
		"files.yaml: item 2 (/y): has no roles",
		"template of /y")
	if _, err := testSource(t, map[string]string{"files.yaml": "- {path: /x, tempalte: y}\n"}); err == nil || !strings.Contains(err.Error(),
		"tempalte") {
		t.Error(err)
	}
}
