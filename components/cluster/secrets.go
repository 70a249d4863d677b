package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
)

// ensureSecrets makes the namespace of a cluster and generates those of its secrets that never
// were, or takes them from the cluster's store. Kubernetes encrypts them at rest.
func (t *reconciliation) ensureSecrets(ctx context.Context, secret *corev1.Secret) error {
	have, err := readRecord(t.cluster.Name, secret)
	if err != nil {
		return err
	}
	store := t.cluster.Spec.Secrets.Source.ExternalSecrets
	if secret == nil {
		if err := t.neverHadSecrets(); err != nil && store == nil { // a store still has those that were lost here
			return err
		}
	} else {
		if err := t.reuse(ctx, secret); err != nil {
			return err
		}
		t.facts.Database.Created = secret.Annotations[AnnotationDatabase]
	}
	want, err := t.completeSecrets(ctx, have)
	if err != nil {
		return err
	}
	if err := t.writeRecord(ctx, secret, have, want); err != nil || store != nil {
		return err
	}
	return t.leaveStore(ctx)
}

// completeSecrets returns what the cluster's Secret is to say, with all secrets that are declared.
func (t *reconciliation) completeSecrets(ctx context.Context, have record) (record, error) {
	if from := t.cluster.Spec.Secrets.Source.ExternalSecrets; from != nil {
		return t.followStore(ctx, *from, have)
	}
	tree, generated, err := secrets.Generate(t.composer.Source().Secrets(), have.tree, have.generated, rand.Reader)
	if err != nil {
		return have, fmt.Errorf("secret %s/%s: %w", openstack.Namespace(t.cluster.Name), openstack.SecretName, err)
	}
	return record{tree: tree, generated: generated}, nil
}

// writeRecord writes what the cluster's Secret is to say, if it says anything else, or makes it.
func (t *reconciliation) writeRecord(ctx context.Context, secret *corev1.Secret, have, want record) error {
	if secret != nil && have.equal(want) {
		return nil
	}
	name := openstack.Namespace(t.cluster.Name)
	var before *corev1.Secret
	if secret == nil {
		if err := t.ensureNamespace(ctx, name); err != nil {
			return err
		}
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: openstack.SecretName,
			Labels: map[string]string{openstack.LabelCluster: t.cluster.Name, openstack.LabelManagedBy: openstack.ManagedBy}}}
	} else {
		before = secret.DeepCopy()
	}
	if err := want.write(secret); err != nil {
		return err
	}
	var err error
	if before == nil {
		err = t.Live.Create(ctx, secret)
	} else {
		err = t.Live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return err
	}
	t.seen.secret = secret.DeepCopy()
	t.log.Info("secrets written", slog.Bool("from a store", want.kept != nil), slog.Int("generated", len(want.generated)), slog.Int("before", len(have.generated)))
	return nil
}

func (t *reconciliation) ensureNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{openstack.LabelCluster: t.cluster.Name,
		openstack.LabelManagedBy: openstack.ManagedBy}}}
	if err := t.Live.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
