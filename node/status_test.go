package node

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// An inventory that the API server does not take is left out, once, and the one from before does not stay as if it were true.
// What regiond's controller writes stays, and is not a reason to write.
func TestInventoryThatIsNotTaken(t *testing.T) {
	r, id := newFakeRegion(t)
	dir := t.TempDir()
	writeIdentity(t, dir, id)
	r.host.Status = region.HostStatus{Inventory: &inventory.Inventory{MemoryBytes: 1}, Release: region.ReleaseEpoxy, OpenStack: &region.HostOpenStack{Cluster: "main", Ready: true}}
	r.longest = 700
	stop := startAgent(t, dir, io.Discard)
	r.see("a status without inventory", func() bool { return r.writes > 0 })
	var beats int
	r.set(func() { beats = r.heartbeats })
	r.see("thirty more heartbeats", func() bool { return r.heartbeats > beats+30 })
	stop()
	st := r.host.Status
	if st.Inventory != nil || st.Release != "" || st.BootID == "" {
		t.Errorf("got %+v, want neither the inventory nor the release from before", st)
	}
	if st.OpenStack == nil || !st.OpenStack.Ready {
		t.Errorf("got status.openstack %+v, want it as it was", st.OpenStack)
	}
	if c := st.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionTrue || !strings.Contains(c[0].Message, "inventory is left out, since the API server did not take it: the status of a host may have") {
		t.Errorf("got conditions %+v, want Healthy to say why there is no inventory", c)
	}
	if r.writes != 1 || r.refusals != 1 {
		t.Errorf("got %d writes and %d refusals, want one of each", r.writes, r.refusals)
	}

	r.set(func() { r.longest = 0 })
	stop = startAgent(t, dir, io.Discard)
	r.see("the inventory, after a restart", func() bool {
		return r.host.Status.Inventory != nil && r.host.Status.Inventory.MemoryBytes == 8<<30 && !strings.Contains(r.host.Status.Conditions[0].Message, "left out")
	})
	stop()
}

// A patch names every field, so that none stays from before.
func TestStatusPatchNamesAllFields(t *testing.T) {
	var all func(t reflect.Type, patch map[string]any, path string) []string
	all = func(typ reflect.Type, patch map[string]any, path string) (missing []string) {
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			v, ok := patch[name]
			if !ok && path+name != "openstack" {
				missing = append(missing, path+name)
			}
			inner, object := v.(map[string]any)
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if object && ft.Kind() == reflect.Struct {
				missing = append(missing, all(ft, inner, path+name+".")...)
			}
		}
		return missing
	}
	patch, err := statusPatch(region.HostStatus{Inventory: &inventory.Inventory{}, Configuration: &region.HostConfiguration{}, OpenStack: &region.HostOpenStack{Ready: true}})
	if err != nil {
		t.Fatal(err)
	}
	if missing := all(reflect.TypeFor[region.HostStatus](), patch, ""); len(missing) > 0 {
		t.Errorf("fields %v are not in the patch", missing)
	}
	if _, ok := patch["openstack"]; ok {
		t.Error("status.openstack is in the patch, which is not the agent's")
	}
	var back region.HostStatus
	b, err := json.Marshal(patch)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back.Inventory == nil || back.Configuration == nil {
		t.Errorf("%s: %v", b, err)
	}
}
