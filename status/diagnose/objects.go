package diagnose

import (
	"bytes"
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
)

// kinds that are collected as they are. ConfigMaps and Secrets are not among them.
var kinds = []schema.GroupVersionKind{
	region.GroupVersion.WithKind("Region"), region.GroupVersion.WithKind("Server"),
	region.GroupVersion.WithKind("Host"), region.GroupVersion.WithKind("OpenStackCluster"),
	{Version: "v1", Kind: "Node"}, {Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Service"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, {Group: "events.k8s.io", Version: "v1", Kind: "Event"},
}

// objects of the region, a file a kind, and of Secrets the names and the keys' names.
func (b *bundle) objects(ctx context.Context) {
	for _, kind := range kinds {
		name := "objects/" + strings.ToLower(kind.Kind) + ".yaml"
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := b.list(ctx, list); err != nil {
			b.missing(name, err)
			continue
		}
		var out bytes.Buffer
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			page, err := yaml.Marshal(o.Object)
			if err != nil {
				b.missing(name+": "+o.GetName(), err)
				continue
			}
			out.WriteString("---\n")
			out.Write(page)
		}
		b.add(name, out.Bytes())
	}
	b.secretNames()
}

func (b *bundle) list(ctx context.Context, list client.ObjectList) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return b.API.List(ctx, list)
}

// secretNames is which Secrets there are, since when, and what they have.
func (b *bundle) secretNames() {
	const name = "objects/secret-names.yaml"
	type entry struct {
		Namespace string            `json:"namespace"`
		Name      string            `json:"name"`
		Type      corev1.SecretType `json:"type,omitempty"`
		Created   metav1.Time       `json:"created"`
		Bytes     map[string]int    `json:"bytes"`
	}
	entries := []entry{}
	for _, s := range b.secrets {
		e := entry{Namespace: s.Namespace, Name: s.Name, Type: s.Type, Created: s.CreationTimestamp, Bytes: map[string]int{}}
		for key, value := range s.Data {
			e.Bytes[key] = len(value)
		}
		entries = append(entries, e)
	}
	page, err := yaml.Marshal(entries)
	if err != nil {
		b.missing(name, err)
		return
	}
	b.add(name, page)
}
