package rollout_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/rollout"
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
