package cluster

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"regiond.dev/regiond/components/openstack"
)

// Annotations on the Secret of a cluster.
const (
	// AnnotationGenerated lists the paths of the secrets that were ever generated. One that is missing
	// from the tree and listed here was lost, and is not generated a second time: services hold the
	// first one.
	AnnotationGenerated = "regiond.dev/generated"
	// AnnotationKeptOwn is there while the secrets come from a store. It lists, by name, the operator's
	// own secrets that were set before and that the store does not have: they stay in use.
	AnnotationKeptOwn = "regiond.dev/kept-own-secrets"
)

// record is what the Secret of a cluster says.
type record struct {
	// tree of the secrets.
	tree map[string]any
	// generated are the paths of AnnotationGenerated.
	generated []string
	// kept are the names of AnnotationKeptOwn, nil if the secrets do not come from a store.
	kept []string
}

// readRecord reads a cluster's Secret, which may be nil. Errors do not show secrets.
func readRecord(cluster string, secret *corev1.Secret) (record, error) {
	r := record{tree: map[string]any{}}
	if secret == nil {
		return r, nil
	}
	name := openstack.Namespace(cluster) + "/" + openstack.SecretName
	if b := secret.Data[openstack.SecretKey]; len(b) > 0 {
		if err := json.Unmarshal(b, &r.tree); err != nil {
			// Not the error's own text: it may quote a secret.
			return r, fmt.Errorf("secret %s: %s is not a JSON object; restore it from a backup", name, openstack.SecretKey)
		}
	}
	for annotation, list := range map[string]*[]string{AnnotationGenerated: &r.generated, AnnotationKeptOwn: &r.kept} {
		if a := secret.Annotations[annotation]; a != "" {
			if err := json.Unmarshal([]byte(a), list); err != nil {
				return r, fmt.Errorf("secret %s, annotation %s: %w", name, annotation, err)
			}
		}
	}
	return r, nil
}

// write puts the record into a Secret and leaves what else is in it.
func (r record) write(secret *corev1.Secret) error {
	content, err := json.Marshal(r.tree)
	if err != nil {
		return err
	}
	generated, err := json.Marshal(r.generated)
	if err != nil {
		return err
	}
	kept, err := json.Marshal(r.kept)
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Data[openstack.SecretKey] = content
	secret.Annotations[AnnotationGenerated] = string(generated)
	if secret.Annotations[AnnotationKeptOwn] = string(kept); r.kept == nil {
		delete(secret.Annotations, AnnotationKeptOwn)
	}
	return nil
}

func (r record) equal(o record) bool {
	return equality.Semantic.DeepEqual(r.tree, o.tree) && slices.Equal(r.generated, o.generated) &&
		slices.Equal(r.kept, o.kept) && (r.kept == nil) == (o.kept == nil)
}
