package rollout_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/machine/configuration"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestDiff(t *testing.T) {
	const head = "apiVersion: v1\nkind: %s\n"
	for _, tt := range []struct{ name, kind, live, result, want string }{
		{"bookkeeping", "Service", "metadata: {name: a, resourceVersion: '1', generation: 1, uid: x, managedFields: []}\nstatus: {a: 1}",
			"metadata: {name: a, resourceVersion: '2', generation: 2, uid: y}\nstatus: {a: 2}", ""},
		{"scalar", "Service", "metadata: {name: a}\nspec: {x: 1}", "metadata: {name: a}\nspec: {x: 2}", "spec.x: 1 → 2"},
		{"new and gone", "Service", "metadata: {name: a}\nspec: {x: 1}", "metadata: {name: a}\nspec: {z: v}", "spec.x: 1 → \nspec.z:  → v"},
		{"key with a dot", "Service", "metadata: {name: a, labels: {a.b/c: '1'}}", "metadata: {name: a, labels: {a.b/c: '2'}}", `metadata.labels["a.b/c"]: 1 → 2`},
		{"by name", "Service", "metadata: {name: a}\nspec: {c: [{name: x, i: 1}, {name: z, i: 1}]}", "metadata: {name: a}\nspec: {c: [{name: z, i: 1}, {name: x, i: 2}]}",
			"spec.c[x].i: 1 → 2"},
		{"order", "Service", "metadata: {name: a}\nspec: {c: [{name: x}, {name: z}]}", "metadata: {name: a}\nspec: {c: [{name: z}, {name: x}]}",
			`spec.c: [{"name":"x"},{"name":"z"}] → [{"name":"z"},{"name":"x"}]`},
		{"by index", "Service", "metadata: {name: a}\nspec: {c: [1, 2]}", "metadata: {name: a}\nspec: {c: [1, 3, 4]}", "spec.c[1]: 2 → 3\nspec.c[2]:  → 4"},
		{"secret", "Secret", "metadata: {name: a}\ndata: {a: b2xk, gone: b2xk}\ntype: A", "metadata: {name: a}\ndata: {a: bmV3}\ntype: B",
			"data.a: <secret> → <secret>\ndata.gone: <secret> → \ntype: A → B"},
		{"secret without data", "Secret", "metadata: {name: a}", "metadata: {name: a}\ndata: {a: bmV3}", "data:  → <secret>"},
		{"long", "ConfigMap", "metadata: {name: a}\ndata: {a: " + strings.Repeat("x", 500) + "}", "metadata: {name: a}\ndata: {a: ''}",
			"data.a: " + strings.Repeat("x", 160) + `… → ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := strings.ReplaceAll(head, "%s", tt.kind)
			var got []string
			for _, f := range rollout.Diff(object(t, h+tt.live), object(t, h+tt.result)) {
				got = append(got, f.Path+": "+f.Old+" → "+f.New)
			}
			if s := strings.Join(got, "\n"); s != tt.want {
				t.Errorf("got\n%s\nwant\n%s", s, tt.want)
			}
		})
	}
}

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
	got := rollout.DiffNode("node1", before, after, redact)
	want := rollout.NodeChange{Host: "node1", Action: rollout.ActionUpdate,
		Files: []rollout.FileChange{
			{Path: "/etc/a.conf", Action: rollout.ActionUpdate, Diff: "@@ -1,3 +1,3 @@\n [a]\n-x = 1\n+x = 2\n password = <secret>\n"},
			{Path: "/etc/c.conf", Action: rollout.ActionDelete}, {Path: "/etc/n.conf", Action: rollout.ActionCreate},
			{Path: "/etc/r.conf", Action: rollout.ActionUpdate, Diff: "@@ -1 +1 @@\n-1\n+2\n"},
			{Path: "/etc/s.conf", Action: rollout.ActionUpdate, SecretsOnly: true},
		},
		Services: []rollout.ServiceChange{{Name: "a.service", Action: "restart"}, {Name: "n.service", Action: "start"}, {Name: "r.service", Action: "reload"}, {Name: "gone.service", Action: "stop"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if same := rollout.DiffNode("node1", before, before, redact); same.Action != rollout.ActionNone || len(same.Files)+len(same.Services) != 0 {
		t.Errorf("an unchanged configuration: %+v", same)
	}
	if first := rollout.DiffNode("node1", configuration.Configuration{}, after, redact); first.Action != rollout.ActionCreate || len(first.Files) != 5 || first.Services[0].Action != "start" {
		t.Errorf("a first configuration: %+v", first)
	}
	mode := before
	mode.Files = []configuration.File{before.Files[0]}
	changed := mode.Files[0]
	changed.Mode = "0600"
	got = rollout.DiffNode("node1", configuration.Configuration{Files: mode.Files}, configuration.Configuration{Files: []configuration.File{changed}}, redact)
	if len(got.Files) != 1 || got.Files[0].Attributes != "0640 root:nova → 0600 root:nova" || got.Files[0].Diff != "" {
		t.Errorf("a changed mode: %+v", got)
	}
}
