package configgen

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// bundle returns a second folder of templates with its own file, service and values. changes
// replace files; an empty one removes the file.
func bundle(changes map[string]string) Templates {
	m := fstest.MapFS{}
	for name, content := range map[string]string{
		"files.yaml": "- {path: /etc/dpdk/nic.conf, template: nic.conf, format: shell, roles: [compute], mode: \"0600\", owner: root, group: root}\n" +
			"- {path: /etc/dpdk/agent.conf, template: agent.conf, format: shell, roles: [dpdk-agent], mode: \"0600\", owner: root, group: root}\n",
		"services.yaml":        "- {name: dpdk.service, files: [/etc/dpdk/nic.conf, /etc/nova/nova.conf]}\n",
		"schema.yaml":          "dpdk.queues: {type: integer, min: 1, means: queues of each port}\ndpdk.driver: {type: string, choices: [vfio, uio], means: driver}\n",
		"values/defaults.yaml": "dpdk:\n  queues: 4\n  driver: vfio\n",
		"values/gazpacho.yaml": "dpdk:\n  queues: 8\n",
		"values/secrets.yaml":  "dpdk: {token: {generate: uuid}}\n",
		"files/nic.conf":       "QUEUES={{ .dpdk.queues }}\nDEBUG={{ .nova.debug }}\n",
		"files/agent.conf":     "DRIVER={{ .dpdk.driver }}\nTOKEN={{ .dpdk.token }}\n",
	} {
		m[name] = &fstest.MapFile{Data: []byte(content)}
	}
	for name, content := range changes {
		if m[name] = (&fstest.MapFile{Data: []byte(content)}); content == "" {
			delete(m, name)
		}
	}
	return Templates{Name: "ovs-dpdk", FS: m}
}

func ownTemplates() Templates { return Templates{Name: "openstack", FS: os.DirFS("testdata/source")} }

// A bundle's templates are rendered beside OpenStack's, whose files stay unchanged, and every place
// names its owner.
func TestTemplatesOfABundle(t *testing.T) {
	alone, err := Load(ownTemplates())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(ownTemplates(), bundle(nil))
	if err != nil {
		t.Fatal(err)
	}
	alone.options, s.options = nil, nil // names that no release has
	c := testCluster(`{"dpdk": {"driver": "uio"}}`, "")
	c.Secrets["dpdk"] = map[string]any{"token": "T0KEN"}
	without := testCluster("", "")
	got, want := applied(t, s, c, []Node{node1}), applied(t, alone, without, []Node{node1})
	want["node1/etc/dpdk/nic.conf"] = "QUEUES=4\nDEBUG=false\n"
	want["dpdk-agent/etc/dpdk/agent.conf"] = "DRIVER=uio\nTOKEN=T0KEN\n"
	if len(got) != len(want) {
		t.Errorf("got %d files, want %d", len(got), len(want))
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s: got %q, want %q", name, got[name], content)
		}
	}
	v := mustValues(t, s, c)
	conf, _, err := s.Node(v, node1)
	if n := len(conf.Services); err != nil || n != 2 || conf.Services[n-1].Name != "dpdk.service" {
		t.Errorf("got the services %+v (%v), want the bundle's after OpenStack's", conf.Services, err)
	}
	e, err := s.Explain(v, "dpdk-agent", "agent.conf", "DRIVER")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := e.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	mustSay(t, b.String(), "template  ovs-dpdk/agent.conf:1", "before \"vfio\", from defaults of ovs-dpdk: ovs-dpdk/values/defaults.yaml:3")
	if list := s.ListValues("dpdk.queues"); len(list) != 1 || list[0].defaults() != "4 (gazpacho: 8)" {
		t.Errorf("got the values %+v, want dpdk.queues with its defaults", list)
	}
}

// A file, value or service that a second folder also has is refused, and the error names both
// folders.
func TestTemplatesThatCollide(t *testing.T) {
	for name, tc := range map[string]struct {
		changes map[string]string
		want    []string
	}{
		"a file": {map[string]string{"files.yaml": "- {path: /etc/nova/nova.conf, template: nic.conf, format: shell, roles: [compute], mode: \"0600\", " +
			"owner: root, group: root}\n"},
			[]string{"ovs-dpdk/files.yaml: item 1 (/etc/nova/nova.conf): role compute already gets this path from openstack/files.yaml: item "}},
		"a value": {map[string]string{"values/defaults.yaml": "dpdk: {queues: 1, driver: uio}\nnova: {workers: 2}\n",
			"schema.yaml": "dpdk.queues: {type: integer}\ndpdk.driver: {type: string, choices: [uio]}\nnova.workers: {type: integer}\n"},
			[]string{"ovs-dpdk/values/defaults.yaml:2: nova.workers is also declared by openstack/values/defaults.yaml:6"}},
		"a value of a release": {map[string]string{"values/gazpacho.yaml": "nova: {workers: 2}\n"},
			[]string{"ovs-dpdk/values/gazpacho.yaml:1: nova.workers is also declared by openstack/values/defaults.yaml:6"}},
		"a value above one": {map[string]string{"values/gazpacho.yaml": "nova: 2\n"},
			[]string{"ovs-dpdk/values/gazpacho.yaml:1: nova is also declared by openstack/values/"}},
		"a value below one": {map[string]string{"values/gazpacho.yaml": "nova: {workers: {api: 2}}\n"},
			[]string{"nova.workers.api is also declared by openstack/values/defaults.yaml:6"}},
		"a secret": {map[string]string{"values/secrets.yaml": "nova: {password: {generate: password}}\n"},
			[]string{"ovs-dpdk/values/secrets.yaml:1: nova.password is also declared by openstack/values/secrets.yaml:"}},
		"a service": {map[string]string{"services.yaml": "- {name: nova-compute.service, files: []}\n"},
			[]string{"ovs-dpdk/services.yaml: nova-compute.service is already a service of openstack/services.yaml"}},
		"a release of its own": {map[string]string{"values/gazpaco.yaml": "dpdk: {queues: 2}\n"},
			[]string{`ovs-dpdk/values/gazpaco.yaml: release "gazpaco" is not known; known: epoxy, gazpacho`}},
		"no schema":     {map[string]string{"schema.yaml": ""}, []string{"ovs-dpdk", "schema.yaml"}},
		"a wrong value": {map[string]string{"values/gazpacho.yaml": "dpdk: {queues: 0}\n"}, []string{"ovs-dpdk/values/gazpacho.yaml:1: dpdk.queues is 0, must be"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(ownTemplates(), bundle(tc.changes))
			if err == nil {
				t.Fatal("no error")
			}
			mustSay(t, err.Error(), tc.want...)
		})
	}
	if _, err := Load(ownTemplates(), Templates{Name: "openstack", FS: bundle(nil).FS}); err == nil || !strings.Contains(err.Error(), `templates "openstack"`) {
		t.Errorf("two folders of one name: got %v, want a refusal", err)
	}
}

// A cluster that is pinned to templates without a schema renders as before, whatever bundles add.
func TestBundleBesideTemplatesWithoutSchema(t *testing.T) {
	m := fstest.MapFS{}
	err := fs.WalkDir(ownTemplates().FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == schemaName {
			return err
		}
		data, err := fs.ReadFile(ownTemplates().FS, p)
		m[p] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(Templates{Name: "openstack", FS: m}, bundle(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Values(testCluster(`{"nova": {"workers": "many"}}`, "")); err != nil {
		t.Errorf("got %v, want the value accepted as before", err)
	}
}
