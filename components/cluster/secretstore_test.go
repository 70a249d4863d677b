package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/ownsecret"
	"regiond.dev/regiond/region"
)

// storeOf declares that a cluster's secrets are in a store.
func storeOf(w *world) { w.store(&region.ExternalSecretStore{Store: "vault"}) }

// store declares where the cluster's secrets come from, nil for regiond itself.
func (w *world) store(from *region.ExternalSecretStore) {
	w.t.Helper()
	c := w.cluster()
	c.Spec.Secrets.Source.ExternalSecrets = from
	w.must(w.api.Update(w.t.Context(), c))
}

// ofStore says whether the objects that a store is asked by, and that it is answered in, are there.
func (w *world) ofStore() (asks, written bool) {
	w.t.Helper()
	there := func(o client.Object) bool {
		err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: cluster.StoreSecret}, o)
		w.must(client.IgnoreNotFound(err))
		return err == nil
	}
	external := &unstructured.Unstructured{}
	external.SetGroupVersionKind(schema.GroupVersionKind{Group: "external-secrets.io", Version: "v1", Kind: "ExternalSecret"})
	return there(external), there(&corev1.Secret{})
}

// conditionSays says whether the condition Configured is this one and its message has all of the parts.
func (w *world) conditionSays(status metav1.ConditionStatus, reason string, parts ...string) func() bool {
	return func() bool {
		c := w.condition(region.ConditionConfigured)
		return c.Status == status && c.Reason == reason && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(c.Message, p) })
	}
}

// generatedTree has all secrets that are declared.
func (w *world) generatedTree() map[string]any {
	w.t.Helper()
	tree, _, err := secrets.Generate(w.composer.Source().Secrets(), nil, nil, strings.NewReader(strings.Repeat("0123456789abcdefghijklmnop", 1000)))
	w.must(err)
	return tree
}

// operatorWrites is what the External Secrets operator does when the store has the tree.
func operatorWrites(ctx context.Context, api client.Client, tree any) error {
	content, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: cluster.StoreSecret,
		Labels: map[string]string{openstack.LabelCluster: "lab"}}, Data: map[string][]byte{openstack.SecretKey: content}}
	if err := api.Create(ctx, s); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return api.Update(ctx, s)
}

func (w *world) inForce() map[string]any {
	w.t.Helper()
	s := &corev1.Secret{}
	var tree map[string]any
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: openstack.SecretName}, s))
	w.must(json.Unmarshal(s.Data[openstack.SecretKey], &tree))
	return tree
}

// A cluster's secrets come from its store: nothing is generated, a wrong entry changes nothing, and
// services go on with what they use.
func TestSecretsOfAStore(t *testing.T) {
	w := newWorld(t)
	storeOf(w)
	c := w.controller()
	says := func(part string) func() bool {
		return func() bool { return strings.Contains(w.condition(region.ConditionConfigured).Message, part) }
	}
	w.until(always(c), "the wait for the operator is told", says("waiting for the External Secrets operator to write Secret openstack-lab/openstack-store "+
		"from entry openstack-lab/openstack-secrets of the ClusterSecretStore vault"))
	err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: openstack.SecretName}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("secrets were generated: %v", err)
	}
	asked := &unstructured.Unstructured{}
	asked.SetGroupVersionKind(schema.GroupVersionKind{Group: "external-secrets.io", Version: "v1", Kind: "ExternalSecret"})
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: cluster.StoreSecret}, asked))

	w.must(operatorWrites(t.Context(), w.api, map[string]any{"keystone": map[string]any{"admin_password": "S3CRET"}}))
	w.until(always(c), "what is wrong with the entry is told", says("keystone.admin_password is not a password of 16 to 255 letters and digits"))
	if says("S3CRET")() {
		t.Error("the condition shows a secret")
	}

	tree := w.generatedTree()
	tree["own"] = map[string]any{"ldap-password": "x"}
	w.must(operatorWrites(t.Context(), w.api, tree))
	w.until(always(c), "ready", w.ready)
	if got, _ := secrets.Get(w.inForce(), "keystone.admin_password"); got != mustGet(t, tree, "keystone.admin_password") {
		t.Errorf("services use %v, want the store's", got)
	}
	if got, _ := secrets.Get(w.inForce(), "own.ldap-password"); got != "x" {
		t.Errorf("own.ldap-password is %v, want the store's", got)
	}

	// A secret that services hold is not changed under them.
	before, _ := json.Marshal(w.inForce())
	secrets.Put(tree, "keystone.admin_password", "anotherPassword0123")
	w.must(operatorWrites(t.Context(), w.api, tree))
	w.until(always(c), "the changed secret is told", says("keystone.admin_password is not the one that services use"))
	if after, _ := json.Marshal(w.inForce()); string(after) != string(before) {
		t.Error("a changed store changed the secrets that services use")
	}
	secrets.Put(tree, "keystone.admin_password", mustGet(t, w.inForce(), "keystone.admin_password"))
	w.must(operatorWrites(t.Context(), w.api, tree))
	w.reconcile(c) // the event of the Secret
	if !w.conditionSays(metav1.ConditionTrue, region.ReasonApplied)() {
		t.Errorf("got %+v right after the secret was put back, want it followed", w.condition(region.ConditionConfigured))
	}
}

// followed is a cluster that is ready with the secrets of its store, and its controller.
func followed(t *testing.T, own map[string]any) (*world, *cluster.Controller) {
	t.Helper()
	w := newWorld(t)
	storeOf(w)
	c := w.controller()
	w.reconcile(c)
	tree := w.generatedTree()
	if own != nil {
		tree["own"] = own
	}
	w.must(operatorWrites(t.Context(), w.api, tree))
	w.until(always(c), "ready", w.ready)
	return w, c
}

// templates of the cluster's pods by their Deployment.
func (w *world) templates() map[string]corev1.PodSpec {
	w.t.Helper()
	var list appsv1.DeploymentList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace("openstack-lab")))
	all := map[string]corev1.PodSpec{}
	for _, d := range list.Items {
		all[d.Name] = d.Spec.Template.Spec
	}
	if len(all) == 0 {
		w.t.Fatal("the cluster has no Deployments")
	}
	return all
}

func mustGet(t *testing.T, tree map[string]any, path string) any {
	t.Helper()
	v, ok := secrets.Get(tree, path)
	if !ok {
		t.Fatalf("the tree has no %s", path)
	}
	return v
}

// A cluster whose services use generated secrets keeps them when a store is declared that has others.
func TestStoreTakesOverGeneratedSecrets(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	own := w.inForce()
	storeOf(w)
	w.must(operatorWrites(t.Context(), w.api, w.generatedTree()))
	w.until(always(c), "the store's other secrets are refused", func() bool {
		return strings.Contains(w.condition(region.ConditionConfigured).Message, "is not the one that services use")
	})
	before := w.templates()
	w.must(operatorWrites(t.Context(), w.api, own))
	w.until(always(c), "ready", w.ready)
	if after := w.templates(); !reflect.DeepEqual(after, before) {
		t.Errorf("pods are restarted though the secrets are the same: got %v, want %v", after, before)
	}
}

// A cluster that has its secrets itself goes on while the operator is away, whatever of it is: its
// webhook, its definitions, or what it wrote.
func TestStoreThatIsAwayStopsNothing(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("failed calling webhook: connection refused"))
	kind := schema.GroupKind{Group: "external-secrets.io", Kind: "ExternalSecret"}
	for name, tt := range map[string]struct {
		breakIt func(w *world)
		reason  string
		says    []string
	}{
		"the webhook refuses what is there already": {func(w *world) {
			w.noOperator = func(verb string) error { return map[string]error{"apply": internal, "delete": internal}[verb] }
		}, region.ReasonApplied, nil},
		"the webhook refuses what is new": {func(w *world) {
			w.noOperator = func(verb string) error { return map[string]error{"apply": internal}[verb] }
			w.store(&region.ExternalSecretStore{Store: "vault", Entry: "elsewhere"})
		}, region.ReasonSecretStoreUnavailable, []string{"failed calling webhook", "entry elsewhere", "see whether the External Secrets operator and its webhook run"}},
		"its definitions are gone": {func(w *world) {
			w.noOperator = func(string) error { return &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: []string{"v1"}} }
		}, region.ReasonSecretStoreUnavailable, []string{"install the External Secrets operator"}},
		"its definitions are gone, and the kind is remembered": {func(w *world) {
			w.noOperator = func(string) error { return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group}, "") }
		}, region.ReasonSecretStoreUnavailable, []string{"install the External Secrets operator"}},
		"what it wrote is gone": {func(w *world) {
			w.must(w.api.Delete(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: cluster.StoreSecret}}))
		}, region.ReasonSecretStoreUnavailable, []string{"waiting for the External Secrets operator to write Secret openstack-lab/openstack-store"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := followed(t, nil)
			before := w.inForce()
			tt.breakIt(w)
			w.must(w.api.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "keystone"}}))
			for range 5 {
				w.reconcile(c)
			}
			w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "keystone"}, &appsv1.Deployment{}))
			w.until(always(c), "ready again, and told", func() bool {
				return w.ready() && w.conditionSays(metav1.ConditionTrue, tt.reason, tt.says...)()
			})
			if after := w.inForce(); !reflect.DeepEqual(after, before) {
				t.Error("the secrets in force are not what they were")
			}
			// It is followed again once it is back.
			w.noOperator = nil
			w.must(operatorWrites(t.Context(), w.api, before))
			w.until(always(c), "the store is followed again", w.conditionSays(metav1.ConditionTrue, region.ReasonApplied))
		})
	}
}

// An operator that is away is not waited for in each reconciliation: its webhook takes seconds not to answer.
func TestStoreThatIsAwayIsNotAskedAllTheTime(t *testing.T) {
	w, c := followed(t, nil)
	asked := 0
	w.noOperator = func(string) error {
		asked++
		return errors.New("context deadline exceeded")
	}
	end := w.now.Add(3 * time.Minute)
	for w.now.Before(end) {
		at := w.now
		w.reconcile(c)
		w.now = at.Add(5 * time.Second) // events
	}
	if asked != 3 {
		t.Errorf("got %d calls in three minutes, want one a minute", asked)
	}
}

// A cluster that leaves its store keeps what services use. Nothing is asked of the store any more, and
// what it answered is not left lying about.
func TestClusterLeavesItsStore(t *testing.T) {
	w, c := followed(t, map[string]any{"ldap-password": "x"})
	before, pods := w.inForce(), w.templates()

	refused := apierrors.NewInternalError(errors.New("failed calling webhook"))
	w.noOperator = func(verb string) error { return map[string]error{"delete": refused}[verb] }
	w.store(nil)
	w.until(always(c), "the object that can't be removed is told", w.conditionSays(metav1.ConditionTrue, region.ReasonSecretStoreUnavailable, "failed calling webhook",
		"ExternalSecret openstack-lab/openstack-store can't be removed"))
	if asks, written := w.ofStore(); !asks || !written {
		t.Errorf("ExternalSecret is there: %t, what it wrote: %t; want both while the first can't be removed", asks, written)
	}
	w.noOperator = nil
	w.until(w.controller, "the store is left", w.conditionSays(metav1.ConditionTrue, region.ReasonApplied))
	if asks, written := w.ofStore(); asks || written {
		t.Errorf("ExternalSecret is there: %t, what it wrote: %t; want neither", asks, written)
	}
	if after := w.inForce(); !reflect.DeepEqual(after, before) {
		t.Error("the secrets in force are not what they were")
	}
	if after := w.templates(); !reflect.DeepEqual(after, pods) {
		t.Error("pods are restarted though the secrets are the same")
	}
	// They are regiond's own from now on: one that is lost is not generated again.
	s := &corev1.Secret{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: openstack.SecretName}, s))
	if list := s.Annotations[cluster.AnnotationGenerated]; !strings.Contains(list, "keystone.admin_password") {
		t.Errorf("got the generated secrets %s, want all", list)
	}
	if _, kept := s.Annotations[cluster.AnnotationKeptOwn]; kept {
		t.Error("the Secret still says that it follows a store")
	}
}

// An ExternalSecret of that name that someone else made is left alone.
func TestLeavingAStoreRemovesItsOwnObjectsOnly(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: cluster.StoreSecret}}
	w.must(w.api.Create(t.Context(), s))
	for range 3 {
		w.reconcile(w.controller())
	}
	if _, written := w.ofStore(); !written {
		t.Error("a Secret without the cluster's label was removed")
	}
}

// Secrets that were set before a cluster follows a store are not dropped because its entry lacks them.
// What the entry had once is dropped when it is removed there.
func TestStoreKeepsOwnSecrets(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	for name, value := range map[string]string{"ldap-password": "S3CRET-1", "vendor-key": "S3CRET-2"} {
		if _, err := ownsecret.Set(t.Context(), w.api, "lab", name, value); err != nil {
			t.Fatal(err)
		}
	}
	entry := w.inForce()
	entry["own"] = map[string]any{"vendor-key": "S3CRET-3", "new": "S3CRET-4"}
	storeOf(w)
	w.must(operatorWrites(t.Context(), w.api, entry))
	w.until(always(c), "the kept secret is told", w.conditionSays(metav1.ConditionTrue, region.ReasonApplied, "stay in use, add them to it: own.ldap-password"))
	want := map[string]any{"ldap-password": "S3CRET-1", "vendor-key": "S3CRET-3", "new": "S3CRET-4"}
	if got := w.inForce()["own"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got the own secrets %v, want %v", got, want)
	}
	if m := w.condition(region.ConditionConfigured).Message; strings.Contains(m, "S3CRET") || strings.Contains(m, "vendor-key") {
		t.Errorf("the condition says %q, want no value, and no name but that of the kept secret", m)
	}
	w.reconcile(w.controller()) // another process knows which was kept
	// In the store at last, it follows it.
	entry["own"] = map[string]any{"ldap-password": "S3CRET-5", "new": "S3CRET-4"}
	w.must(operatorWrites(t.Context(), w.api, entry))
	w.until(w.controller, "nothing is kept any more", func() bool {
		return reflect.DeepEqual(w.inForce()["own"], entry["own"]) && !strings.Contains(w.condition(region.ConditionConfigured).Message, "ldap-password")
	})
}

// The Secret of a cluster that an earlier regiond took from a store says nothing of it; leaving it is the same.
func TestClusterOfAnEarlierRegiondLeavesItsStore(t *testing.T) {
	w, _ := followed(t, nil)
	s := &corev1.Secret{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: openstack.SecretName}, s))
	delete(s.Annotations, cluster.AnnotationKeptOwn)
	s.Annotations[cluster.AnnotationGenerated] = "null"
	w.must(w.api.Update(t.Context(), s))
	before := w.inForce()
	w.store(nil)
	w.until(always(w.controller()), "ready", w.ready)
	if asks, written := w.ofStore(); asks || written {
		t.Errorf("ExternalSecret is there: %t, what it wrote: %t; want neither", asks, written)
	}
	if after := w.inForce(); !reflect.DeepEqual(after, before) {
		t.Error("the secrets in force are not what they were")
	}
}
