//go:build envtest

package plan_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region/host"
)

func TestRealAPIServer(t *testing.T) {
	c := newAPI(t)
	t.Run("an unchanged apply writes nothing", func(t *testing.T) { testTwice(t, c) })
	t.Run("a changed option", func(t *testing.T) { testChange(t, c) })
	t.Run("a field that someone else changed is overwritten", func(t *testing.T) { testTakeOver(t, c) })
	t.Run("an object that can't be changed is replaced", func(t *testing.T) { testReplace(t, c) })
	t.Run("an existing Job is left alone", func(t *testing.T) { testJob(t, c) })
	t.Run("prune", func(t *testing.T) { testPrune(t, c) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, c) })
	t.Run("declarations", func(t *testing.T) { testDeclare(t, c) })
	t.Run("await", func(t *testing.T) { testAwait(t, c) })
	t.Run("this program's own manifests", func(t *testing.T) { testProgram(t, c) })
	t.Run("gather", func(t *testing.T) { testGather(t, c) })
}

func testTwice(t *testing.T, c client.Client) {
	f := facts(t, c, "twice")
	s := state(t, f)
	first, text := planOf(t, c, f, s)
	if len(first.Changes) != len(s.Objects) || len(first.Nodes) != 2 || !strings.Contains(text, "+ Deployment openstack-twice/keystone") {
		t.Errorf("the first plan: got\n%s", text)
	}
	if got := apply(t, c, f, s); len(got) != len(s.Objects)+2 {
		t.Errorf("written at first: got %v", got)
	}
	before := versions(t, c, s, f)
	if p, text := planOf(t, c, f, s); !p.Empty() {
		t.Errorf("a plan without changes: got\n%s", text)
	}
	if got := apply(t, c, f, state(t, facts(t, c, "twice"))); len(got) != 0 {
		t.Errorf("written again: got %v, want nothing", got)
	}
	if pruned, err := rollout.Prune(t.Context(), c, plan.Owned("twice"), s.Objects); err != nil || len(pruned) != 0 {
		t.Errorf("pruned: got %v, %v; want nothing", pruned, err)
	}
	if after := versions(t, c, s, f); !reflect.DeepEqual(before, after) {
		t.Errorf("resource versions before %v, after %v", before, after)
	}
}

func testChange(t *testing.T, c client.Client) {
	f := facts(t, c, "change")
	s := state(t, f)
	apply(t, c, f, s)
	before := versions(t, c, s, f)
	f.Cluster.Spec.Values = &runtime.RawExtension{Raw: []byte(`{"keystone": {"workers": 3}}`)}
	next := state(t, f)
	_, text := planOf(t, c, f, next)
	for _, want := range []string{
		"+ Secret openstack-change/config-keystone-", "~ Deployment openstack-change/keystone\n      spec.template.spec.volumes[config].secret.secretName: config-keystone-",
		"→ pods of keystone restart: new ones are ready before old ones stop", "Configuration of keystone\n\n    ~ /etc/keystone/keystone.conf\n",
		"        -workers = 1\n        +workers = 3\n", "password = <secret:keystone.password>",
		// The Job has different content and a different name.
		"+ Job openstack-change/schema-keystone-", "- Job openstack-change/schema-keystone-",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan lacks %q", want)
		}
	}
	if strings.Contains(text, "0123456789abcdef") || strings.Contains(text, "Node") {
		t.Error("the plan shows a secret, or hosts that do not read the option")
	}
	if t.Failed() {
		t.Logf("the plan:\n%s", text)
	}
	if after := versions(t, c, s, f); !reflect.DeepEqual(before, after) {
		t.Error("planning changed something")
	}
	if got := strings.Join(apply(t, c, f, next), " "); got != "Secret Job Deployment" {
		t.Errorf("written: %s", got)
	}
}

func testTakeOver(t *testing.T, c client.Client) {
	f := facts(t, c, "takeover")
	s := state(t, f)
	apply(t, c, f, s)
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: "openstack-takeover", Name: "keystone"}
	if err := c.Get(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	two := int32(2)
	d.Spec.Replicas = &two
	if err := c.Update(t.Context(), d, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	if _, text := planOf(t, c, f, s); !strings.Contains(text, "spec.replicas: 2 → 1") || !strings.Contains(text, "it is scaled from 2 to 1 pods; running pods are kept") {
		t.Errorf("got\n%s", text)
	}
	if got := strings.Join(apply(t, c, f, s), " "); got != "Deployment" {
		t.Errorf("written: %s", got)
	}
	if err := c.Get(t.Context(), key, d); err != nil || *d.Spec.Replicas != 1 {
		t.Errorf("%v, replicas %d", err, *d.Spec.Replicas)
	}
}

func testReplace(t *testing.T, c client.Client) {
	f := facts(t, c, "replace")
	s := state(t, f)
	apply(t, c, f, s)
	secret, set := find(t, s, "Secret", "config-"), find(t, s, "StatefulSet", "mariadb")
	uid := func(o *unstructured.Unstructured) string {
		live := o.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
			t.Fatal(err)
		}
		return string(live.GetUID())
	}
	was := uid(secret) + uid(set)
	if err := unstructured.SetNestedField(secret.Object, map[string]any{"x": "eA=="}, "data"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(set.Object, "other", "spec", "serviceName"); err != nil {
		t.Fatal(err)
	}
	p, text := planOf(t, c, f, s)
	if len(p.Changes) != 2 || p.Changes[0].Action != rollout.ActionReplace || p.Changes[1].Action != rollout.ActionReplace || uid(secret)+uid(set) != was {
		t.Errorf("got\n%s", text)
	}
	if got := strings.Join(apply(t, c, f, s), " "); got != "Secret StatefulSet" {
		t.Errorf("written: %s", got)
	}
	if p, text := planOf(t, c, f, s); !p.Empty() || uid(secret)+uid(set) == was {
		t.Errorf("not replaced:\n%s", text)
	}
	// Any other refusal by the API server is an error, and nothing is deleted.
	if err := unstructured.SetNestedField(set.Object, "Never", "spec", "podManagementPolicy"); err != nil {
		t.Fatal(err)
	}
	was = uid(set)
	if _, err := rollout.Apply(t.Context(), c, []*unstructured.Unstructured{set}); err == nil || !strings.Contains(err.Error(), "apply StatefulSet openstack-replace/mariadb: ") {
		t.Errorf("got %v", err)
	}
	if uid(set) != was {
		t.Error("an object was deleted although its replacement is invalid")
	}
}

func find(t *testing.T, s *openstack.State, kind, prefix string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range s.Objects {
		if o.GetKind() == kind && strings.HasPrefix(o.GetName(), prefix) {
			return o
		}
	}
	t.Fatalf("no %s %s", kind, prefix)
	return nil
}

func testJob(t *testing.T, c client.Client) {
	f := facts(t, c, "job")
	s := state(t, f)
	apply(t, c, f, s)
	before := versions(t, c, s, f)
	job := find(t, s, "Job", "schema-")
	if err := unstructured.SetNestedField(job.Object, int64(9), "spec", "backoffLimit"); err != nil {
		t.Fatal(err)
	}
	if got := apply(t, c, f, s); len(got) != 0 {
		t.Errorf("written: %v", got)
	}
	if after := versions(t, c, s, f); !reflect.DeepEqual(before, after) {
		t.Error("an existing Job was modified")
	}
	live := job.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(job), live); err != nil {
		t.Fatal(err)
	}
	why, err := rollout.Progress(t.Context(), c, live)
	if err != nil || !strings.HasSuffix(why, ": it has not started") {
		t.Errorf("%q, %v", why, err)
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	live.Object["status"] = map[string]any{"startTime": now, "failed": int64(1), "conditions": []any{
		map[string]any{"type": "FailureTarget", "status": "True"},
		map[string]any{"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}}}
	if err := c.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	why, err = rollout.Progress(t.Context(), c, live)
	if want := "it failed: Job has reached the specified backoff limit; its log: regiond kubectl -n openstack-job logs job/schema-keystone-"; err != nil || !strings.Contains(why, want) {
		t.Errorf("got %q, %v, want %s", why, err, want)
	}
}

func testPrune(t *testing.T, c client.Client) {
	f := facts(t, c, "prune")
	s := state(t, f)
	apply(t, c, f, s)
	ours := map[string]string{openstack.LabelCluster: "prune", openstack.LabelManagedBy: openstack.ManagedBy}
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "openstack-prune", Name: name, Labels: labels}
	}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}, Volumes: []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "config-used"}}}}}
	labels := map[string]string{"a": "b"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("data", ours), Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta("old", ours)},
		&corev1.ConfigMap{ObjectMeta: meta("foreign", nil)},
		&corev1.ConfigMap{ObjectMeta: meta("unmanaged", map[string]string{openstack.LabelCluster: "prune"})},
		&corev1.ConfigMap{ObjectMeta: meta("another", map[string]string{openstack.LabelCluster: "other", openstack.LabelManagedBy: openstack.ManagedBy})},
		&corev1.Secret{ObjectMeta: meta("config-used", ours)},
		&corev1.Secret{ObjectMeta: meta("config-unused", ours)},
		&corev1.Secret{ObjectMeta: meta(openstack.SecretName, ours)},
		claim,
		&appsv1.ReplicaSet{ObjectMeta: meta("earlier", nil), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}}},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p, text := planOf(t, c, f, s)
	if len(p.Changes) != 2 || !strings.Contains(text, "- ConfigMap openstack-prune/old\n") || !strings.Contains(text, "- Secret openstack-prune/config-unused\n") {
		t.Errorf("the plan:\n%s", text)
	}
	pruned, err := rollout.Prune(t.Context(), c, plan.Owned("prune"), s.Objects)
	if err != nil || fmt.Sprint(pruned) != "[ConfigMap openstack-prune/old Secret openstack-prune/config-unused]" {
		t.Errorf("pruned %v, %v", pruned, err)
	}
	versions(t, c, s, f) // all desired objects exist
	for _, o := range []client.Object{&corev1.Secret{ObjectMeta: meta("config-used", nil)}, &corev1.Secret{ObjectMeta: meta(openstack.SecretName, nil)}, claim} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
		}
	}
}

func testNodes(t *testing.T, c client.Client) {
	f := facts(t, c, "nodes")
	s := state(t, f)
	apply(t, c, f, s)
	secret := nodeSecret(t, c, "nodes-node1")
	conf, digest, err := configuration.Decode(secret.Data[configuration.SecretKey])
	if err != nil || !reflect.DeepEqual(conf, s.Nodes["nodes-node1"]) || secret.Annotations[plan.AnnotationDigest] != digest || secret.Annotations[plan.AnnotationRelease] != "epoxy" ||
		secret.Labels["regiond.dev/configuration"] != "true" || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != f.Hosts[0].UID {
		t.Errorf("%v, %+v", err, secret.ObjectMeta)
	}
	// One host has registered; one lost its address and keeps its configuration; one left the cluster.
	f.Hosts[0].Registration = "r-1"
	f.Hosts[1].Address = ""
	s = state(t, f)
	p, text := planOf(t, c, f, s)
	if len(p.Nodes) != 1 || !strings.Contains(text, "        +registered = r-1\n") || !strings.Contains(text, "→ restart of nova-compute.service\n") || !strings.Contains(text, "nova-compute.service on 1 node.") {
		t.Errorf("the plan:\n%s", text)
	}
	if got := strings.Join(apply(t, c, f, s), " "); got != "nodes-node1" {
		t.Errorf("written: %s", got)
	}
	f.Hosts = f.Hosts[:1]
	s = state(t, f)
	if _, text := planOf(t, c, f, s); !strings.Contains(text, "- Node nodes-node2\n") {
		t.Errorf("the plan:\n%s", text)
	}
	if got := strings.Join(apply(t, c, f, s), " "); got != "nodes-node2" {
		t.Errorf("written: %s", got)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: host.Namespace, Name: "nodes-node2"}, secret); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
