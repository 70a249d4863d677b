package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	remote := map[string]any{"key": d.StoreEntry(), "property": from.Property}
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

// storeAttempt is the last attempt to follow a cluster's store, or to leave it.
type storeAttempt struct {
	// of is the store, the zero value if none is declared.
	of   region.ExternalSecretStore
	time time.Time
	// trouble is why it failed, nil if it did not.
	trouble *Trouble
	// left: nothing is asked of a store any more.
	left bool
}

// followStore returns the cluster's secrets with those of its store. A store that can't be followed
// stops nothing if the cluster has all its secrets itself.
func (t *reconciliation) followStore(ctx context.Context, from region.ExternalSecretStore, have record) (record, error) {
	declared := t.composer.Source().Secrets()
	complete := len(secrets.Missing(declared, have.tree)) == 0
	if complete && t.triedStore(from) {
		t.goOn(t.seen.store.trouble)
		return have, nil
	}
	at := fmt.Sprintf("entry %s of the ClusterSecretStore %s", t.cluster.Spec.StoreEntry(), from.Store)
	entry, trouble, err := t.storeEntry(ctx, from, at, len(have.tree) == 0)
	if err != nil {
		return have, err
	}
	want := have
	if trouble == nil {
		if want, err = takeEntry(declared, entry, have); err != nil {
			trouble = &Trouble{Reason: region.ReasonSecretStoreRefused, Message: fmt.Sprintf("%s: %v", at, err)}
		}
	}
	t.seen.store = storeAttempt{of: from, time: t.Now(), trouble: trouble}
	switch {
	case trouble == nil:
		if len(want.kept) > 0 {
			t.facts.Warnings = append(t.facts.Warnings, fmt.Sprintf("secrets that were set before are not in %s and stay in use, add them to it: %s",
				at, strings.Join(inOwn(want.kept), ", ")))
		}
		return want, nil
	case !complete:
		return have, errors.New(trouble.Message)
	}
	t.goOn(trouble)
	return have, nil
}

// triedStore says that a store could not be reached, or left, a moment ago: a webhook that is away
// costs the seconds that the API server waits for it.
func (t *reconciliation) triedStore(of region.ExternalSecretStore) bool {
	last := t.seen.store
	away := last.trouble != nil && last.trouble.Reason == region.ReasonSecretStoreUnavailable
	return away && last.of == of && t.Now().Sub(last.time) < terminalPoll
}

// goOn with the cluster's own copy of its secrets.
func (t *reconciliation) goOn(trouble *Trouble) {
	with := &Trouble{Reason: trouble.Reason, Message: clip("its own copy of the secrets stays in use: " + trouble.Message)}
	if trouble.Reason == region.ReasonSecretStoreRefused && t.facts.Refused == nil {
		t.facts.Refused = with
		return
	}
	t.facts.Store = with
}

// takeEntry returns what a cluster's Secret is to say with an entry of its store. Secrets that services
// use already are in the store as they are. The operator's own secrets are what the store says, but
// for those that were set before and that it never had: they are kept.
func takeEntry(declared secrets.Declared, entry map[string]any, have record) (record, error) {
	own, isObject := entry[configgen.OwnSecrets].(map[string]any)
	if entry[configgen.OwnSecrets] != nil && !isObject {
		return have, fmt.Errorf("%s is not an object of secrets by their names", configgen.OwnSecrets)
	}
	tree, err := secrets.Take(declared, entry, have.tree)
	if err != nil {
		return have, err
	}
	want := record{tree: tree, generated: have.generated, kept: []string{}}
	mine, _ := have.tree[configgen.OwnSecrets].(map[string]any) // there may be none
	all := map[string]any{}
	maps.Copy(all, own)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		_, there := own[name]
		if there || have.kept != nil && !slices.Contains(have.kept, name) {
			continue
		}
		all[name], want.kept = mine[name], append(want.kept, name)
	}
	if tree[configgen.OwnSecrets] = all; len(all) == 0 {
		delete(tree, configgen.OwnSecrets)
	}
	return want, nil
}

// inOwn are the paths of own secrets.
func inOwn(names []string) []string {
	var paths []string
	for _, n := range names {
		paths = append(paths, configgen.OwnSecrets+"."+n)
	}
	return paths
}

// storeEntry reads what the operator has written of an entry. Trouble says why that is not there, or
// can't be relied on.
func (t *reconciliation) storeEntry(ctx context.Context, from region.ExternalSecretStore, at string, first bool) (map[string]any, *Trouble, error) {
	name := openstack.Namespace(t.cluster.Name)
	if first {
		if err := t.ensureNamespace(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	unavailable := func(format string, args ...any) (map[string]any, *Trouble, error) {
		return nil, &Trouble{Reason: region.ReasonSecretStoreUnavailable, Message: fmt.Sprintf(format, args...)}, nil
	}
	err := t.askStore(ctx, externalSecret(&t.cluster.Spec.OpenStackDeclaration, &from))
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case notInstalled(err):
		return unavailable("secrets come from the ClusterSecretStore %s, and the API server has no ExternalSecret (%s): "+
			"install the External Secrets operator, or remove spec.openstack.clusters[].secrets", from.Store, externalSecretKind.GroupVersion())
	case err != nil:
		return unavailable("the ExternalSecret %s/%s, by which %s is read, can't be brought to what it should be (%v): see whether the External Secrets "+
			"operator and its webhook run; it is tried again", name, StoreSecret, at, err)
	}
	written := &corev1.Secret{}
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: name, Name: StoreSecret}, written); err != nil {
		if apierrors.IsNotFound(err) {
			return unavailable("waiting for the External Secrets operator to write Secret %s/%s from %s; see: regiond kubectl -n %s describe externalsecret %s",
				name, StoreSecret, at, name, StoreSecret)
		}
		return nil, nil, err
	}
	var entry map[string]any
	if err := json.Unmarshal(written.Data[openstack.SecretKey], &entry); err != nil {
		// Not the error's own text: it may quote a secret.
		return nil, &Trouble{Reason: region.ReasonSecretStoreRefused, Message: at + " is not a JSON object with the tree of secrets; regiond config secrets shows it"}, nil
	}
	return entry, nil, nil
}

// askStore applies an ExternalSecret, unless it is there as it is to be: that needs no webhook.
func (t *reconciliation) askStore(ctx context.Context, want *unstructured.Unstructured) error {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(externalSecretKind)
	err := t.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	if client.IgnoreNotFound(err) != nil || err == nil && covers(have.Object, want.Object) {
		return err
	}
	_, err = rollout.Apply(ctx, t.Live, []*unstructured.Unstructured{want})
	return err
}

// notInstalled says that the API server has no ExternalSecret. It answers NotFound for a kind that it
// had when its kinds were last read.
func notInstalled(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// covers says whether an object has all that is wanted of it. The operator fills in defaults beside
// that; a text that is wanted to be empty may be missing.
func covers(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, _ := have.(map[string]any) // anything else lacks the fields
		for k, v := range want {
			if !covers(object[k], v) {
				return false
			}
		}
		return true
	case []any:
		list, _ := have.([]any)
		return slices.EqualFunc(list, want, covers)
	case string:
		text, _ := have.(string)
		return text == want
	}
	return reflect.DeepEqual(have, want)
}

// leaveStore ends what was asked of a store for a cluster that keeps its secrets itself. Its Secret
// has them by now.
func (t *reconciliation) leaveStore(ctx context.Context) error {
	none := region.ExternalSecretStore{}
	if t.seen.store.left {
		return nil
	}
	if t.triedStore(none) {
		t.facts.Store = t.seen.store.trouble
		return nil
	}
	gone, err := t.forgetStore(ctx, t.cluster.Name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.seen.store = storeAttempt{time: t.Now(), left: gone && err == nil}
	if t.seen.store.left {
		return nil
	}
	why := "it waits for the External Secrets operator"
	if err != nil {
		why = err.Error()
	}
	t.seen.store.trouble = &Trouble{Reason: region.ReasonSecretStoreUnavailable, Message: clip(fmt.Sprintf("its secrets no longer come from a store and stay what they are, "+
		"but the ExternalSecret %s/%s can't be removed (%s): see whether the External Secrets operator and its webhook run; it is tried again",
		openstack.Namespace(t.cluster.Name), StoreSecret, why))}
	t.facts.Store = t.seen.store.trouble
	return nil
}

// forgetStore removes what asks a store for a cluster's secrets, and then what the operator has
// written of them. gone is false while the operator has not let go of the ExternalSecret: it might
// write again. Objects of these names without the cluster's label are someone else's.
func (c *Controller) forgetStore(ctx context.Context, cluster string) (gone bool, err error) {
	asks := &unstructured.Unstructured{}
	asks.SetGroupVersionKind(externalSecretKind)
	written := &metav1.PartialObjectMetadata{}
	written.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	for _, o := range []client.Object{asks, written} {
		if gone, err := c.removeOwn(ctx, cluster, o); !gone || err != nil {
			return false, err
		}
	}
	return true, nil
}

// removeOwn removes the object of a cluster that is called as StoreSecret, and says whether it is gone.
func (c *Controller) removeOwn(ctx context.Context, cluster string, o client.Object) (gone bool, err error) {
	key := client.ObjectKey{Namespace: openstack.Namespace(cluster), Name: StoreSecret}
	if err := c.Live.Get(ctx, key, o); err != nil || o.GetLabels()[openstack.LabelCluster] != cluster {
		if notInstalled(err) {
			err = nil
		}
		return err == nil, err
	}
	if o.GetDeletionTimestamp() == nil {
		uid := o.GetUID()
		if err := c.Live.Delete(ctx, o, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return false, err
		}
	}
	err = c.Live.Get(ctx, key, o)
	return notInstalled(err), client.IgnoreNotFound(err)
}
