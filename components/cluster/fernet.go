package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
)

// AnnotationFernet on the Secret of a cluster says which of Keystone's keys are in its pods, and
// since when: a fernetRecord. Keys that it does not name have rotated, and are on their way to the
// pods.
const AnnotationFernet = "regiond.dev/fernet-keys"

// fernetRecord is the value of AnnotationFernet.
type fernetRecord struct {
	// Keys by the digest of their files.
	Keys string `json:"keys"`
	// Since when they are in Keystone's pods.
	Since time.Time `json:"since"`
}

// fernetSettled is how long a process must have seen Keystone's pods with a Secret before the keys
// in it are taken to be in all of them. The kubelet, which ends with regiond, brings a changed
// Secret into a running pod within two minutes (its syncFrequency, one minute, and what a watch
// takes).
const fernetSettled = 10 * time.Minute

// Fernet is what is known of the keys that Keystone signs tokens with.
type Fernet struct {
	// Rotates: Keystone reads them from where they can change while it runs.
	Rotates bool
	// Store that they are from, empty if regiond generates them.
	Store string
	// Since when Keystone's pods have the present keys by the record of that, zero without one.
	Since time.Time
	// Period between rotations.
	Period time.Duration
	// Present is since when this process has seen the Secret of Keystone's pods with the present
	// keys, zero if it has others.
	Present time.Time
}

// FernetStep is what to do with the keys.
type FernetStep int

// Steps. The time to the next rotation runs from the record.
const (
	FernetKeep FernetStep = iota
	FernetRecord
	FernetRotate
)

// fernet says whether Keystone's keys rotate now, and how they stand. However late it is, they
// rotate once, and not again before a period has passed since all pods have what came of it: the
// next rotation drops the key that they signed with until then.
func (d *decider) fernet() {
	f := d.f.Fernet
	if f == nil { // what is desired isn't known
		d.fernetKeys = d.f.Status.FernetKeys
		return
	}
	d.fernetKeys = &region.OpenStackFernetKeys{}
	switch {
	case !f.Rotates:
		d.fernetKeys.Message = "they do not rotate: the templates that the cluster is pinned to start Keystone with them; regiond apply brings others"
		return
	case f.Store != "":
		d.fernetKeys.Message = "they do not rotate: they are those of the ClusterSecretStore " + f.Store
		return
	}
	// A time that has not come is of a clock that was wrong: the keys are recorded anew.
	if recorded := !f.Since.IsZero() && !f.Since.After(d.now); recorded {
		due := f.Since.Add(f.Period)
		d.fernetKeys.Since, d.fernetKeys.Next = apiTime(f.Since), apiTime(due)
		if d.now.Before(due) {
			return
		}
		d.fernetStep = FernetRotate
	} else {
		d.fernetStep = FernetRecord
	}
	if d.fernetKeys.Message = d.fernetWait(f); d.fernetKeys.Message != "" {
		d.fernetStep = FernetKeep
	}
}

// fernetWait is what a step waits for, empty for nothing.
func (d *decider) fernetWait(f *Fernet) string {
	switch {
	case len(d.apply) == 0:
		return "waiting for the cluster to be applied; see the condition " + region.ConditionConfigured
	case !d.proved(region.ConditionKeystone):
		return "waiting for the gate " + region.ConditionKeystone
	case f.Present.IsZero() || d.now.Sub(f.Present) < fernetSettled:
		return fmt.Sprintf("waiting until regiond has seen Keystone with the present keys for %s", fernetSettled)
	}
	return ""
}

// apiTime has whole seconds, as the API server keeps it.
func apiTime(t time.Time) *metav1.Time { return &metav1.Time{Time: t.UTC().Truncate(time.Second)} }

// fernetFacts looks at Keystone's keys. The state is known.
func (t *reconciliation) fernetFacts(ctx context.Context) error {
	f := &Fernet{Rotates: t.composer.FernetRotates(), Period: t.state.FernetPeriod()}
	t.facts.Fernet = f
	if from := t.cluster.Spec.Secrets.Source.ExternalSecrets; from != nil {
		f.Store = from.Store
	}
	desired := t.fernetSecret()
	if desired == nil || t.seen.secret == nil {
		return nil
	}
	keys := desired.GetAnnotations()[openstack.AnnotationContent]
	var record fernetRecord
	// What can't be read is not a record: another one is made.
	if err := json.Unmarshal([]byte(t.seen.secret.Annotations[AnnotationFernet]), &record); err == nil && record.Keys == keys {
		f.Since = record.Since
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err := t.Metadata.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || live.Annotations[openstack.AnnotationContent] != keys {
		t.seen.fernet = check{}
		return nil
	}
	if now := t.Now(); t.seen.fernet.of != keys || t.seen.fernet.time.After(now) {
		t.seen.fernet = check{of: keys, time: now}
	}
	f.Present = t.seen.fernet.time
	return nil
}

// fernetSecret is the desired Secret with the keys for Keystone's pods, nil if templates have none.
func (t *reconciliation) fernetSecret() *unstructured.Unstructured {
	name := openstack.ConfigSecret(openstack.RoleFernet)
	i := slices.IndexFunc(t.state.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Secret" && o.GetName() == name })
	if i < 0 {
		return nil
	}
	return t.state.Objects[i]
}

// moveFernet takes a step of Keystone's keys. Each is one write, to the Secret that the decision
// was made of and no other one: whatever ends this process, the keys have rotated or have not. Pods
// get them when the next reconciliation applies what follows.
func (t *reconciliation) moveFernet(ctx context.Context, step FernetStep) error {
	if step == FernetKeep || t.seen.secret == nil {
		return nil
	}
	before, now := t.seen.secret, t.Now()
	secret := before.DeepCopy()
	var err error
	switch step {
	case FernetRecord:
		err = recordFernet(secret, fernetRecord{Keys: t.seen.fernet.of, Since: now.UTC().Truncate(time.Second)})
	case FernetRotate:
		err = rotateFernet(t.cluster.Name, secret)
	}
	if err == nil {
		err = t.Live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) {
		return nil // it has changed, which wakes this cluster
	}
	if err != nil {
		return fmt.Errorf("secret %s/%s: Keystone's keys: %w", before.Namespace, before.Name, err)
	}
	t.seen.secret = secret.DeepCopy()
	if step == FernetRecord {
		t.facts.Fernet.Since = now.Truncate(time.Second)
		return nil
	}
	t.facts.Fernet.Since, t.facts.Fernet.Present = time.Time{}, time.Time{}
	event.Act(t.Events, t.cluster, "FernetKeysRotated", "the keys that Keystone signs tokens with were rotated", nil)
	t.log.Info("fernet keys of Keystone rotated")
	return nil
}

// recordFernet writes into a cluster's Secret which keys Keystone's pods have.
func recordFernet(secret *corev1.Secret, r fernetRecord) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[AnnotationFernet] = string(value)
	return nil
}

// rotateFernet moves the keys in a cluster's Secret on.
func rotateFernet(cluster string, secret *corev1.Secret) error {
	r, err := readRecord(cluster, secret)
	if err != nil {
		return err
	}
	if r.tree, err = openstack.RotateFernetKeys(r.tree, rand.Reader); err != nil {
		return err
	}
	return r.write(secret)
}

// lasting are the secrets that proofs depend on: all but Keystone's keys, whose rotation leaves
// what was proved true.
func lasting(tree map[string]any) map[string]any {
	keystone, isMap := tree["keystone"].(map[string]any)
	if !isMap {
		return tree
	}
	tree, keystone = maps.Clone(tree), maps.Clone(keystone)
	delete(keystone, "fernet_keys")
	tree["keystone"] = keystone
	return tree
}
