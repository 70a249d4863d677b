package plan_test

import (
	"reflect"
	"strings"
	"testing"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/machine/configuration"
)

func TestDiffNode(t *testing.T) {
	file := func(path, content string) configuration.File {
		return configuration.File{Path: path, Mode: "0640", Owner: "root", Group: "nova", Content: content}
	}
	before := configuration.Configuration{
		Files: []configuration.File{file("/etc/a.conf", "[a]\nx = 1\npassword = one\n"), file("/etc/b.conf", "b"), file("/etc/c.conf", "c"), file("/etc/r.conf", "1"), file("/etc/s.conf", "one\n")},
		Services: []configuration.Service{{Name: "a.service", Files: []string{"/etc/a.conf"}}, {Name: "b.service", Files: []string{"/etc/b.conf"}},
			{Name: "gone.service"}, {Name: "r.service", Files: []string{"/etc/r.conf"}, Reload: true}},
	}
	after := configuration.Configuration{
		Files: []configuration.File{file("/etc/a.conf", "[a]\nx = 2\npassword = one\n"), file("/etc/b.conf", "b"), file("/etc/n.conf", "n"), file("/etc/r.conf", "2"), file("/etc/s.conf", "two\n")},
		Services: []configuration.Service{{Name: "a.service", Files: []string{"/etc/a.conf"}}, {Name: "b.service", Files: []string{"/etc/b.conf"}},
			{Name: "n.service", Files: []string{"/etc/n.conf"}}, {Name: "r.service", Files: []string{"/etc/r.conf"}, Reload: true}},
	}
	redact := strings.NewReplacer("one", "<secret>", "two", "<secret>").Replace
	got := plan.DiffNode("node1", before, after, redact)
	want := plan.NodeChange{Host: "node1", Action: rollout.ActionUpdate,
		Files: []plan.FileChange{
			{Path: "/etc/a.conf", Action: rollout.ActionUpdate, Diff: "@@ -1,3 +1,3 @@\n [a]\n-x = 1\n+x = 2\n password = <secret>\n"},
			{Path: "/etc/c.conf", Action: rollout.ActionDelete}, {Path: "/etc/n.conf", Action: rollout.ActionCreate},
			{Path: "/etc/r.conf", Action: rollout.ActionUpdate, Diff: "@@ -1 +1 @@\n-1\n+2\n"},
			{Path: "/etc/s.conf", Action: rollout.ActionUpdate, SecretsOnly: true},
		},
		Services: []plan.ServiceChange{{Name: "a.service", Action: "restart"}, {Name: "n.service", Action: "start"}, {Name: "r.service", Action: "reload"}, {Name: "gone.service", Action: "stop"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if same := plan.DiffNode("node1", before, before, redact); same.Action != rollout.ActionNone || len(same.Files)+len(same.Services) != 0 {
		t.Errorf("an unchanged configuration: got %+v, want no change", same)
	}
	if first := plan.DiffNode("node1", configuration.Configuration{}, after, redact); first.Action != rollout.ActionCreate || len(first.Files) != 5 || first.Services[0].Action != "start" {
		t.Errorf("a first configuration: got %+v, want all files created and services started", first)
	}
	mode := before
	mode.Files = []configuration.File{before.Files[0]}
	changed := mode.Files[0]
	changed.Mode = "0600"
	got = plan.DiffNode("node1", configuration.Configuration{Files: mode.Files}, configuration.Configuration{Files: []configuration.File{changed}}, redact)
	if len(got.Files) != 1 || got.Files[0].Attributes != "0640 root:nova → 0600 root:nova" || got.Files[0].Diff != "" {
		t.Errorf("a changed mode: got %+v, want the mode only", got)
	}
}
