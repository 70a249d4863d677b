package host

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// Every text in the status of a host is counted.
func TestEveryTextOfAStatusIsCounted(t *testing.T) {
	expression := characters(reflect.TypeFor[region.HostStatus](), "object.?status", 0)
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, name string) {
		switch {
		case typ.Kind() == reflect.Pointer, typ.Kind() == reflect.Slice:
			walk(typ.Elem(), name)
		case typ == reflect.TypeFor[metav1.Time]():
		case typ.Kind() == reflect.Struct:
			for f := range typ.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				walk(f.Type, name)
			}
		case typ.Kind() == reflect.String:
			if name != "addresses" && name != "blocked" && !strings.Contains(expression, ".?"+name+`.orValue("").size()`) {
				t.Errorf("%s is not counted", name)
			}
		}
	}
	walk(reflect.TypeFor[region.HostStatus](), "")
	for _, list := range []string{"addresses", "tunnels.?blocked"} {
		if !strings.Contains(expression, `object.?status.?`+list+`.orValue([]).map(e0, 64 + optional.of(e0).orValue("").size()).sum()`) {
			t.Errorf("%s are not counted: %s", list, expression)
		}
	}
}

// All that is applied is well-formed, and each policy is bound.
func TestLimitsAreBound(t *testing.T) {
	objects, err := limitObjects()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
		if b, err := json.Marshal(o); err != nil || strings.Contains(string(b), "derived from") {
			t.Errorf("%s %s: %v %s", o.GetKind(), o.GetName(), err, b)
		}
	}
	if got, want := fmt.Sprint(kinds), "map[FlowSchema:1 PriorityLevelConfiguration:1 ValidatingAdmissionPolicy:2 ValidatingAdmissionPolicyBinding:2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
