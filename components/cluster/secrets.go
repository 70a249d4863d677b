package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
)

// AnnotationGenerated on the Secret of a cluster lists the paths of the secrets that were ever generated. One that is missing
// from the tree and listed here was lost, and is not generated a second time: services hold the first one.
const AnnotationGenerated = "regiond.dev/generated"

// ensureSecrets makes the namespace of a cluster and generates those of its secrets that never
// were, or takes them from the cluster's store. Kubernetes encrypts them at rest.
func (t *reconciliation) ensureSecrets(ctx context.Context, secret *corev1.Secret) error {
	name := openstack.Namespace(t.cluster.Name)
	missing := secret == nil
	if missing {
		secret = &corev1.Secret{}
	}
	tree := map[string]any{}
	if b := secret.Data[openstack.SecretKey]; !missing && len(b) > 0 {
		if err := json.Unmarshal(b, &tree); err != nil {
			// Not the error's own text: it may quote a secret.
			return fmt.Errorf("secret %s/%s: %s is not a JSON object; restore it from a backup", name, openstack.SecretName, openstack.SecretKey)
		}
	}
	var generated []string
	if a := secret.Annotations[AnnotationGenerated]; a != "" {
		if err := json.Unmarshal([]byte(a), &generated); err != nil {
			return fmt.Errorf("secret %s/%s, annotation %s: %w", name, openstack.SecretName, AnnotationGenerated, err)
		}
	}
	store := t.cluster.Spec.Secrets.Source.ExternalSecrets
	if missing {
		if err := t.neverHadSecrets(); err != nil && store == nil { // a store still has those that were lost here
			return err
		}
	} else if err := t.reuse(ctx, secret); err != nil {
		return err
	}
	t.facts.Database.Created = secret.Annotations[AnnotationDatabase]
	full, all, err := t.completeSecrets(ctx, tree, generated)
	if err != nil {
		return err
	}
	if !missing && equality.Semantic.DeepEqual(tree, full) && slices.Equal(generated, all) {
		return nil
	}
	content, err := json.Marshal(full)
	if err != nil {
		return err
	}
	list, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if missing {
		if err := t.ensureNamespace(ctx, name); err != nil {
			return err
		}
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: openstack.SecretName,
			Labels: map[string]string{openstack.LabelCluster: t.cluster.Name,
				openstack.LabelManagedBy: openstack.ManagedBy}, Annotations: map[string]string{AnnotationGenerated: string(list)}},
			Data: map[string][]byte{openstack.SecretKey: content}}
		if err := t.Live.Create(ctx, secret); err != nil {
			return err
		}
		t.seen.secret = secret.DeepCopy()
		t.log.Info("secrets generated", slog.Int("secrets", len(all)))
		return nil
	}
	before := secret.DeepCopy()
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[AnnotationGenerated] = string(list)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[openstack.SecretKey] = content
	if err := t.Live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	t.seen.secret = secret.DeepCopy()
	t.log.Info("secrets generated", slog.Int("secrets", len(all)-len(generated)))
	return nil
}

// completeSecrets returns the tree with all declared secrets, and the paths of those that were ever generated.
func (t *reconciliation) completeSecrets(ctx context.Context, tree map[string]any, generated []string) (full map[string]any, all []string, err error) {
	if from := t.cluster.Spec.Secrets.Source.ExternalSecrets; from != nil {
		full, err = t.fromStore(ctx, from, tree)
		return full, generated, err
	}
	full, all, err = secrets.Generate(t.composer.Source().Secrets(), tree, generated, rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("secret %s/%s: %w", openstack.Namespace(t.cluster.Name), openstack.SecretName, err)
	}
	return full, all, nil
}

func (t *reconciliation) ensureNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{openstack.LabelCluster: t.cluster.Name,
		openstack.LabelManagedBy: openstack.ManagedBy}}}
	if err := t.Live.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
