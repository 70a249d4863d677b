package configgen

import (
	"testing"
)

// An earlier regiond may have pinned a cluster to templates without a schema. They render as
// before, even with values that are refused or written differently since.
func TestTemplatesWithoutSchema(t *testing.T) {
	s := mustSource(t, map[string]string{"schema.yaml": ""})
	c := testCluster(`{"nova": {"workers": "many", "conf": {"DEFAULT": {"default_flavor": "a$debug", "cpu_allocation_ratio": "lots", "host": "me"},
		"libvirt": {"cpu_models": ["a", "b"]}}}}`, "")
	conf, warnings, err := s.Node(mustValues(t, s, c), node1)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	files := map[string]string{}
	for _, f := range conf.Files {
		files[f.Path] = f.Content
	}
	mustHave(t, files, "/etc/nova/nova.conf", "default_flavor = a$debug", "cpu_allocation_ratio = lots", "host = me", "cpu_models = a", "cpu_models = b")
	mustHave(t, files, "/etc/systemd/system/nova-compute.service", "ExecStart=/usr/bin/nova-compute --workers many")
}
