package region

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Desired is the region as it was declared, to be applied server-side: without status and what the
// API server adds.
func (r *Region) Desired() (*unstructured.Unstructured, error) {
	typed := *r
	typed.APIVersion, typed.Kind = GroupVersion.String(), KindRegion
	b, err := viewCompact(&typed)
	if err != nil {
		return nil, err
	}
	return object(b)
}

// Desired is the cluster as it was declared, to be applied server-side: without status and what the
// API server adds.
func (c *OpenStackCluster) Desired() (*unstructured.Unstructured, error) {
	b, err := json.Marshal(&OpenStackCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "OpenStackCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}, Spec: c.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("OpenStack cluster %s as JSON: %w", c.Name, err)
	}
	return object(b)
}

// object leaves empty mappings out: of a mapping whose last field was dropped, a server-side apply
// of {} makes null, which the definition of the object then refuses.
func object(document []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(document); err != nil {
		return nil, err
	}
	delete(u.Object, "status")
	dropEmpty(u.Object)
	return u, nil
}

func dropEmpty(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			dropEmpty(e)
			if m, ok := e.(map[string]any); ok && len(m) == 0 {
				delete(v, k)
			}
		}
	case []any:
		for _, e := range v {
			dropEmpty(e)
		}
	}
}
