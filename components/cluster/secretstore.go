package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

// StoreSecret is the name of the ExternalSecret of a cluster whose secrets are in a store, and of
// the Secret that the External Secrets operator makes of it. What regiond uses is checked first,
// and kept in the cluster's own Secret: services go on with it while the store or the operator is
// away.
const StoreSecret = "openstack-store"

// externalSecretKind is served if the External Secrets operator is installed.
var externalSecretKind = schema.GroupVersionKind{Group: "external-secrets.io", Version: "v1", Kind: "ExternalSecret"}

// externalSecret asks the operator for a cluster's entry of the store, as it is: a JSON object.
func externalSecret(d *region.OpenStackDeclaration, from *region.ExternalSecretStore) *unstructured.Unstructured {
	remote := map[string]any{"key": d.StoreEntry()}
	if from.Property != "" {
		remote["property"] = from.Property
	}
	labels := map[string]any{openstack.LabelCluster: d.Name} // of the Secret: the controller watches those with it
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"refreshInterval": "1m0s",
		"secretStoreRef":  map[string]any{"kind": "ClusterSecretStore", "name": from.Store},
		"target": map[string]any{"name": StoreSecret, "creationPolicy": "Owner",
			"template": map[string]any{"metadata": map[string]any{"labels": labels}}},
		"data": []any{map[string]any{"secretKey": openstack.SecretKey, "remoteRef": remote}},
	}}}
	o.SetGroupVersionKind(externalSecretKind)
	o.SetNamespace(openstack.Namespace(d.Name))
	o.SetName(StoreSecret)
	o.SetLabels(map[string]string{openstack.LabelCluster: d.Name})
	return o
}

// fromStore returns the secrets of the cluster with those of its store. Secrets that services use
// already are in the store as they are.
func (t *reconciliation) fromStore(ctx context.Context, from *region.ExternalSecretStore, tree map[string]any) (map[string]any, error) {
	name := openstack.Namespace(t.cluster.Name)
	if len(tree) == 0 {
		if err := t.ensureNamespace(ctx, name); err != nil {
			return nil, err
		}
	}
	_, err := rollout.Apply(ctx, t.Live, []*unstructured.Unstructured{externalSecret(&t.cluster.Spec.OpenStackDeclaration, from)})
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("secrets come from the ClusterSecretStore %s, and the API server has no ExternalSecret (%s): "+
			"install the External Secrets operator, or remove spec.openstack.clusters[].secrets", from.Store, externalSecretKind.GroupVersion())
	}
	if err != nil {
		return nil, err
	}
	written := &corev1.Secret{}
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: name, Name: StoreSecret}, written); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("waiting for the External Secrets operator to write Secret %s/%s from entry %s of the ClusterSecretStore %s; see: "+
				"regiond kubectl -n %s describe externalsecret %s", name, StoreSecret, t.cluster.Spec.StoreEntry(), from.Store, name, StoreSecret)
		}
		return nil, err
	}
	at := fmt.Sprintf("entry %s of the ClusterSecretStore %s", t.cluster.Spec.StoreEntry(), from.Store)
	var store map[string]any
	if err := json.Unmarshal(written.Data[openstack.SecretKey], &store); err != nil {
		// Not the error's own text: it may quote a secret.
		return nil, fmt.Errorf("%s is not a JSON object with the tree of secrets; regiond config secrets shows it", at)
	}
	taken, err := secrets.Take(t.composer.Source().Secrets(), store, tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if delete(taken, configgen.OwnSecrets); store[configgen.OwnSecrets] != nil {
		taken[configgen.OwnSecrets] = store[configgen.OwnSecrets]
	}
	return taken, nil
}

// forgetStore removes what asks the store for a cluster's secrets; the operator removes its Secret with it.
func (c *Controller) forgetStore(ctx context.Context, cluster string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(externalSecretKind)
	o.SetNamespace(openstack.Namespace(cluster))
	o.SetName(StoreSecret)
	if err := c.Live.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return err
	}
	return nil
}
