package cluster_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// otherTemplates are those of another regiond: Nova's services report at another interval.
func otherTemplates(t *testing.T) *openstack.Composer {
	t.Helper()
	changed := func(fsys fs.FS, file, old, with string) fs.FS {
		all := fstest.MapFS{}
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(fsys, name)
			if name == file {
				if !strings.Contains(string(b), old) {
					t.Fatalf("%s has no %q", name, old)
				}
				b = []byte(strings.Replace(string(b), old, with, 1))
			}
			all[name] = &fstest.MapFile{Data: b}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	base, err := kustomize.Base()
	if err != nil {
		t.Fatal(err)
	}
	c, err := openstack.New(changed(templates.FS, "values/defaults.yaml", "report_interval: 10", "report_interval: 11"), base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// desires of the API server: everything but what was observed.
func (w *world) desires() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var secrets corev1.SecretList
	w.must(w.api.List(w.t.Context(), &deployments), w.api.List(w.t.Context(), &sets), w.api.List(w.t.Context(), &secrets))
	for _, o := range deployments.Items {
		all["Deployment "+o.Namespace+"/"+o.Name] = w.json(o.Spec)
	}
	for _, o := range sets.Items {
		all["StatefulSet "+o.Namespace+"/"+o.Name] = w.json(o.Spec)
	}
	for _, o := range secrets.Items {
		all["Secret "+o.Namespace+"/"+o.Name] = string(o.Data["configuration.json"])
	}
	return all
}

func (w *world) json(v any) string {
	w.t.Helper()
	b, err := json.Marshal(v)
	w.must(err)
	return string(b)
}

func (w *world) same(before map[string]string, what string) {
	w.t.Helper()
	after := w.desires()
	for name, was := range before {
		if after[name] != was {
			w.t.Errorf("%s: %s changed", what, name)
		}
	}
	if len(after) != len(before) {
		w.t.Errorf("%s: there are %d objects, were %d", what, len(after), len(before))
	}
}

// A staging cluster gets the new templates and images, and production keeps its own, also while
// staging is brought up and its own templates are stored beside production's.
func TestStagingGetsTheNewOnesFirst(t *testing.T) {
	w := newWorld(t)
	w.until(always(w.controller()), "ready", w.ready)
	before := w.desires()
	w.composer = otherTemplates(t)
	set := w.build("epoxy.json", 100)
	staging := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "staging", UID: "c2"}}
	staging.Spec.Name, staging.Spec.Release, staging.Spec.Address = "staging", region.ReleaseEpoxy, "10.99.0.2"
	w.must(w.api.Create(t.Context(), staging))
	c := w.controller()
	for range 5 {
		if _, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "staging"}}); err != nil {
			t.Fatal(err)
		}
		w.reconcile(c)
	}
	after := w.desires()
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s of the production cluster changed", name)
		}
	}
	if !w.ready() {
		t.Errorf("the production cluster is not ready: %+v", w.condition(region.ConditionReady))
	}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "staging"}, staging))
	if p := staging.Spec.Pinned; p == nil || p.Templates != w.composer.Digest() || p.Templates == w.cluster().Spec.Pinned.Templates {
		t.Errorf("staging is pinned to %+v, want the templates of the new regiond", staging.Spec.Pinned)
	}
	if s := after["StatefulSet openstack-staging/mariadb"]; !strings.Contains(s, set.Images["mariadb"].Digest) {
		t.Errorf("staging's database is %s, want the image that was built last", s)
	}
}

// TestNothingChangesWithoutApply: other templates, images and a new process change nothing of a cluster; its pin does.
func TestNothingChangesWithoutApply(t *testing.T) {
	w := newWorld(t)
	w.host("node1", "10.99.0.101")
	w.until(always(w.controller()), "ready", func() bool { w.agent("node1"); w.register("node1"); return w.ready() })
	first, before := w.composer.Digest(), w.desires()
	if p := w.cluster().Spec.Pinned; p == nil || p.Templates != first || p.Images.Release != region.ReleaseEpoxy || len(p.Images.Images) != 9 {
		t.Fatalf("the first roll-out pinned %+v", p)
	}
	w.composer = otherTemplates(t)
	set := w.build("epoxy.json", 100)
	c := w.controller()
	for range 10 {
		w.reconcile(c)
	}
	w.same(before, "a new regiond and new images")
	if !w.ready() || w.cluster().Spec.Pinned.Templates != first {
		t.Errorf("ready %v, pinned to %s, want %s", w.ready(), w.cluster().Spec.Pinned.Templates, first)
	}
	if kept, err := oci.Kept(w.dir); err != nil || len(kept) != 2 {
		t.Errorf("%d image sets are kept (%v), want the one that was built last and the one that the cluster runs", len(kept), err)
	}
	o := w.cluster()
	o.Spec.Pinned = openstack.NewPin(w.composer.Digest(), set)
	w.must(w.api.Update(t.Context(), o))
	w.until(always(c), "the new pin is rolled out", func() bool { w.agent("node1"); return w.ready() })
	d := &appsv1.Deployment{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "nova-api"}, d))
	if i := d.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(i, set.Images["nova"].Digest) {
		t.Errorf("nova-api runs %s after the apply", i)
	}
	if s := w.desires()["Secret regiond-hosts/node1"]; !strings.Contains(s, "report_interval = 11") {
		t.Error("the host has the old templates after the apply")
	}
}

// unpin makes the cluster one that a regiond before pins has rolled out.
func (w *world) unpin() {
	w.t.Helper()
	o := w.cluster()
	o.Spec.Pinned = nil
	w.must(w.api.Update(w.t.Context(), o), w.api.DeleteAllOf(w.t.Context(), &corev1.ConfigMap{}, client.InNamespace("regiond-system")))
	w.must(oci.Unhold(w.dir, "lab"))
}

func TestClusterOfAnEarlierRegiondIsPinnedToWhatItRuns(t *testing.T) {
	w := newWorld(t)
	w.host("node1", "10.99.0.101")
	w.until(always(w.controller()), "ready", func() bool { w.agent("node1"); w.register("node1"); return w.ready() })
	before := w.desires()
	w.unpin()
	w.must(copyFile(filepath.Join(w.dir, "oci", "epoxy.json"), filepath.Join(w.dir, "oci", "epoxy.previous.json")))
	w.build("epoxy.json", 100)
	old := w.composer
	w.composer, w.earlier = otherTemplates(t), []*openstack.Composer{old}
	c := w.controller()
	for range 10 {
		w.reconcile(c)
	}
	w.same(before, "a newer regiond")
	p := w.cluster().Spec.Pinned
	if p == nil || p.Templates != old.Digest() || !strings.HasSuffix(p.Images.Images[0].Digest, "8") || !w.ready() {
		t.Fatalf("pinned to %+v, want templates %s and the images that run; %s", p, old.Digest(), w.condition(region.ConditionReady).Message)
	}
	// The regiond after this one does not have these templates.
	w.earlier = nil
	c = w.controller()
	for range 10 {
		w.reconcile(c)
	}
	w.same(before, "the regiond after that")
	if !w.ready() {
		t.Errorf("%+v", w.condition(region.ConditionReady))
	}
}

func TestClusterOfUnknownOriginIsLeftAlone(t *testing.T) {
	for name, newer := range map[string]func(w *world){
		"other templates": func(w *world) { w.composer = otherTemplates(t) },
		"other images":    func(w *world) { w.build("epoxy.json", 100) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.until(always(w.controller()), "ready", w.ready)
			before := w.desires()
			w.unpin()
			newer(w)
			c := w.controller()
			for range 10 {
				w.reconcile(c)
			}
			w.same(before, "a newer regiond")
			if k := w.condition(region.ConditionConfigured); k.Status != metav1.ConditionFalse || k.Reason != region.ReasonNotPinned || !strings.Contains(k.Message, "regiond apply") {
				t.Errorf("%+v", k)
			}
			if w.condition(region.ConditionNeutron).Status != metav1.ConditionTrue {
				t.Error("what runs is said not to")
			}
		})
	}
}

// Whether a cluster can be pinned is found by comparing all that it has: not each reconciliation,
// while it has nothing else to do.
func TestSearchForAPinIsNotRepeatedEachTurn(t *testing.T) {
	w := newWorld(t)
	w.until(always(w.controller()), "ready", w.ready)
	w.unpin()
	old := w.composer
	w.composer, w.composes = otherTemplates(t), 0
	c := w.controller()
	begin := w.now
	for range 10 {
		w.reconcile(c)
		w.now = begin
	}
	if w.composes != 1 {
		t.Errorf("%d searches within a minute, want 1", w.composes)
	}
	w.now = begin.Add(time.Minute)
	w.reconcile(c)
	if w.composes != 2 {
		t.Errorf("%d searches after a minute, want 2", w.composes)
	}
	c.Templates.Earlier = []*openstack.Composer{old}
	w.now = w.now.Add(time.Minute)
	w.until(always(c), "pinned", func() bool { return w.cluster().Spec.Pinned != nil })
}

// The pin is a part of the declaration: the reconciliation that writes it tells of the generation that it makes.
func TestConditionsAreOfThePinnedDeclaration(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	c.Live = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := api.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			if of, ok := o.(*region.OpenStackCluster); ok && of.Spec.Pinned != nil {
				of.Generation++ // as the API server does, and the fake one does not
				return api.Update(ctx, of)
			}
			return nil
		}})
	w.reconcile(c)
	o := w.cluster()
	if k := w.condition(region.ConditionConfigured); o.Spec.Pinned == nil || o.Generation == 0 || k.ObservedGeneration != o.Generation {
		t.Errorf("generation %d, %+v", o.Generation, k)
	}
}

// What is wrong with the folder of images is told; it does not keep a cluster from being looked at.
func TestFaultsOfTheImagesFolderAreTold(t *testing.T) {
	w := newWorld(t)
	held := filepath.Join(w.dir, "oci", "held")
	w.must(os.WriteFile(held, nil, 0o600)) // not a folder
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	if k := w.condition(region.ConditionConfigured); !strings.Contains(k.Message, "the next build of images may remove those that it runs") {
		t.Errorf("images are not kept: %+v", k)
	}
	w.must(os.Remove(held))
	w.reconcile(c)
	w.reconcile(c)
	if k := w.condition(region.ConditionConfigured); strings.Contains(k.Message, "build of images") {
		t.Errorf("images are kept again: %+v", k)
	}
	w.unpin()
	w.must(os.WriteFile(filepath.Join(w.dir, "oci", "epoxy.previous.json"), []byte("{"), 0o600))
	w.reconcile(c)
	if k := w.condition(region.ConditionConfigured); k.Reason != region.ReasonNotPinned || !strings.Contains(k.Message, "epoxy.previous.json") {
		t.Errorf("a set that can't be read: %+v", k)
	}
}

func TestLostTemplatesChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.until(always(w.controller()), "ready", w.ready)
	before := w.desires()
	w.must(w.api.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("regiond-system")))
	w.composer = otherTemplates(t)
	c := w.controller()
	for range 5 {
		w.reconcile(c)
	}
	w.same(before, "a regiond that can't read the templates")
	if k := w.condition(region.ConditionConfigured); k.Reason != region.ReasonTemplatesMissing || !strings.Contains(k.Message, "regiond-system/openstack-templates-") {
		t.Errorf("%+v", k)
	}
}

func TestReleaseInForceStays(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	before := w.desires()
	o := w.cluster()
	o.Spec.Release = region.ReleaseGazpacho
	w.must(w.api.Update(t.Context(), o))
	for range 10 {
		w.reconcile(c)
	}
	w.same(before, "another release")
	if k := w.condition(region.ConditionConfigured); k.Status != metav1.ConditionFalse || k.Reason != region.ReasonReleaseRefused || !strings.Contains(k.Message, "before a dump") {
		t.Errorf("%+v", k)
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// register plays a nova-compute that has started.
func (w *world) register(name string) {
	if _, known := w.cloud.hosts[name]; !known {
		w.cloud.register(name, "9f2c1b1e-0000-4000-8000-000000000009")
	}
}
