package cluster

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"regiond.dev/regiond/components/openstack"
)

// AnnotationGenerated on the Secret of a cluster lists the paths of the secrets that were ever generated. One that is missing
// from the tree and listed here was lost, and is not generated a second time: services hold the first one.
const AnnotationGenerated = "regiond.dev/generated"

// record is what the Secret of a cluster says.
type record struct {
	// tree of the secrets.
	tree map[string]any
	// generated are the paths of AnnotationGenerated.
	generated []string
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
	if a := secret.Annotations[AnnotationGenerated]; a != "" {
		if err := json.Unmarshal([]byte(a), &r.generated); err != nil {
			return r, fmt.Errorf("secret %s, annotation %s: %w", name, AnnotationGenerated, err)
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
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Data[openstack.SecretKey] = content
	secret.Annotations[AnnotationGenerated] = string(generated)
	return nil
}

func (r record) equal(o record) bool {
	return equality.Semantic.DeepEqual(r.tree, o.tree) && slices.Equal(r.generated, o.generated)
}
