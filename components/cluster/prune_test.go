package cluster_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cluster that was changed and changed back, all within the time for which what was pruned is not
// looked at again, keeps nothing of the change: a plan after it is empty.
func TestChangeAndBackLeavesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.reconcile(c) // prunes
	secrets := func() []string {
		var list corev1.SecretList
		w.must(w.api.List(t.Context(), &list, client.InNamespace("openstack-lab")))
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		return names
	}
	before := secrets()
	w.now = w.now.Add(5 * time.Minute)
	begin := w.now
	w.reconcile(c) // looks again
	values := w.cluster().Spec.Values
	set := func(v *runtime.RawExtension) {
		o := w.cluster()
		o.Spec.Values = v
		w.must(w.api.Update(t.Context(), o))
	}
	set(&runtime.RawExtension{Raw: []byte(`{"keystone": {"region": "nl-ams-1"}}`)})
	w.now = begin.Add(time.Second)
	w.reconcile(c)
	if slices.Equal(secrets(), before) {
		t.Fatal("the change made nothing")
	}
	set(values)
	w.now = begin.Add(10 * time.Second)
	for range 5 {
		w.reconcile(c)
		w.now = begin.Add(20 * time.Second)
	}
	if got := secrets(); !slices.Equal(got, before) || !w.ready() {
		t.Errorf("ready %v, secrets %v, want %v", w.ready(), got, before)
	}
}

// Endpoints of a region that was renamed go when all pods run with the new name, and not before.
func TestEndpointsOfARenamedRegionArePruned(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.reconcile(c)
	first := w.cloud.pruned
	if first.Owner != "c1" || first.Region == "" || first.Region != w.cloud.ensured.Region {
		t.Errorf("pruned for %q, region %q; ensured %q", first.Owner, first.Region, w.cloud.ensured.Region)
	}
	o := w.cluster()
	o.Spec.Values = &runtime.RawExtension{Raw: []byte(`{"keystone": {"region": "nl-ams-1"}}`)}
	w.must(w.api.Update(t.Context(), o))
	w.failing = "schema-glance"
	for range 5 {
		w.reconcile(c)
	}
	if p := w.cloud.pruned; p.Region != first.Region {
		t.Error("endpoints were removed while a service was not configured yet")
	}
	w.failing = ""
	w.now = w.now.Add(2 * time.Minute) // a failed job is tried again then
	w.until(always(c), "ready again", func() bool { return w.ready() && w.cloud.pruned.Region == "nl-ams-1" })
}
