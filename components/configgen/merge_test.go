package configgen

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

func testLayer(kind layerKind, tree map[string]any) *layer {
	return &layer{name: "test", kind: kind, tree: tree, where: func(p string) string { return p }}
}

// FuzzMerge: an override that fits a tree sets each of its leaves, keeps all others, and changes
// neither tree.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a": {"b": 1, "c": [1]}, "d": "x"}`), []byte(`{"a": {"b": 2}}`))
	f.Add([]byte(`{"a": 1}`), []byte(`{"a": {"b": 2}}`))
	f.Add([]byte(`{"a": {}}`), []byte(`{"a": 1, "b": {"c": {"d": null}}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, errA := decodeObject(a)
		y, errB := decodeObject(b)
		if errA != nil || errB != nil {
			return
		}
		base, errs := merge(empty, testLayer(softLayer, x))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		before, _ := json.Marshal(base.plain())
		merged, errs := merge(base, testLayer(overrideLayer, y))
		if after, _ := json.Marshal(base.plain()); string(after) != string(before) {
			t.Fatalf("the base was changed: got %s, want %s", after, before)
		}
		if len(errs) > 0 {
			return
		}
		walk(y, nil, func(path []string, _ any) {
			var want any = y
			for _, k := range path {
				want = want.(map[string]any)[k]
			}
			if n := merged.find(path); n == nil || !reflect.DeepEqual(n.plain(), want) {
				t.Fatalf("%v is %v, want %v", path, n, want)
			}
		})
		base.leaves(nil, func(path []string, leaf *node) {
			if n := merged.find(path); n == nil {
				t.Fatalf("%v is gone", path)
			}
		})
	})
}

// BenchmarkMerge merges five values into a tree of 300.
func BenchmarkMerge(b *testing.B) {
	tree, own := map[string]any{}, map[string]any{}
	for s := range 20 {
		section := map[string]any{}
		for k := range 15 {
			section[fmt.Sprint("k", k)] = int64(k)
		}
		tree[fmt.Sprint("s", s)] = section
	}
	for k := range 5 {
		own[fmt.Sprint("k", k)] = int64(100)
	}
	base, errs := merge(empty, testLayer(softLayer, tree))
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	for b.Loop() {
		n, errs := merge(base, testLayer(firmLayer, map[string]any{"s3": own}))
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		if _, err := json.Marshal(n.plain()); err != nil {
			b.Fatal(err)
		}
	}
}
