package cluster_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// storeOf declares that a cluster's secrets are in a store.
func storeOf(w *world) {
	w.t.Helper()
	c := w.cluster()
	c.Spec.Secrets.Source.ExternalSecrets = &region.ExternalSecretStore{Store: "vault"}
	w.must(w.api.Update(w.t.Context(), c))
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
