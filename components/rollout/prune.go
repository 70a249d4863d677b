package rollout

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// prunable lists the prunable kinds besides those of desired objects. Kinds that hold data are not
// among them: namespaces and volume claims.
var prunable = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ServiceAccount"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "batch", Version: "v1", Kind: "Job"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// kept lists kinds that are never pruned, desired or not.
var kept = []string{"Namespace", "PersistentVolumeClaim", "PersistentVolume"}

// Owned selects the objects that may be pruned: those in a namespace with all of the labels, except
// for Kept.
type Owned struct {
	Namespace string
	Labels    map[string]string
	Kept      []Ref
}

// Prune deletes owned objects that are no longer desired, and returns them. Configuration that is
// still used by a pod, or by an earlier ReplicaSet as a target for rollback, is left for a later
// time; configuration of pods that stop is deleted with them.
func Prune(ctx context.Context, c client.Client, owned Owned, desired []*unstructured.Unstructured) ([]Ref, error) {
	found, err := undesired(ctx, c, owned, desired)
	if err != nil {
		return nil, err
	}
	var pruned []Ref
	for _, o := range found {
		uid := o.GetUID()
		err := c.Delete(ctx, &o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return pruned, fmt.Errorf("prune %s: %w", RefOf(&o), err)
		}
		pruned = append(pruned, RefOf(&o))
	}
	return pruned, nil
}

// Deletions returns the changes that Prune would make.
func Deletions(ctx context.Context, c client.Client, owned Owned, desired []*unstructured.Unstructured) ([]Change, error) {
	found, err := undesired(ctx, c, owned, desired)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, o := range found {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(o.GroupVersionKind())
		u.SetNamespace(o.Namespace)
		u.SetName(o.Name)
		changes = append(changes, NewChange(ActionDelete, u, nil))
	}
	return changes, nil
}

// undesired lists the objects that Prune would delete, sorted by kind as above, then name.
func undesired(ctx context.Context, c client.Client, owned Owned, desired []*unstructured.Unstructured) ([]metav1.PartialObjectMetadata, error) {
	keep := map[Ref]bool{}
	kinds := slices.Clone(prunable)
	for _, o := range desired {
		keep[RefOf(o)] = true
		if gvk := o.GroupVersionKind(); o.GetNamespace() != "" && !slices.Contains(kinds, gvk) && !slices.Contains(kept, gvk.Kind) {
			kinds = append(kinds, gvk)
		}
	}
	namespace, ours := owned.Namespace, client.MatchingLabels(owned.Labels)
	var all []metav1.PartialObjectMetadata
	for _, gvk := range kinds {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(ctx, &list, client.InNamespace(namespace), ours); err != nil {
			if meta.IsNoMatchError(err) {
				continue
			}
			return nil, fmt.Errorf("list %s of %s: %w", gvk.Kind, namespace, err)
		}
		for _, o := range list.Items {
			o.SetGroupVersionKind(gvk)
			ref := RefOf(&o)
			switch {
			case keep[ref], !o.DeletionTimestamp.IsZero(), metav1.GetControllerOf(&o) != nil, slices.Contains(owned.Kept, ref):
			default:
				all = append(all, o)
			}
		}
	}
	used, err := usedConfigs(ctx, c, namespace, all)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o metav1.PartialObjectMetadata) bool { return used[RefOf(&o)] }), nil
}

// usedConfigs returns the Secrets and ConfigMaps that pods of a namespace use, or that ReplicaSets
// would use for pods. Terminating pods, and those of workloads that will be deleted, are not
// counted: they have mounted their configuration, and none of them starts again. Counting them
// would keep their configuration from being deleted with them, and the next plan would show it.
func usedConfigs(ctx context.Context, c client.Client, namespace string, going []metav1.PartialObjectMetadata) (map[Ref]bool, error) {
	gone := map[types.UID]bool{}
	for _, o := range going {
		gone[o.UID] = true
	}
	used := map[Ref]bool{}
	// ReplicaSets first: they belong to Deployments, and pods to them.
	for _, gvk := range []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Version: "v1", Kind: "Pod"}} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", gvk.Kind, namespace, err)
		}
		for _, o := range list.Items {
			owner := metav1.GetControllerOf(&o)
			if o.GetDeletionTimestamp() != nil || owner != nil && gone[owner.UID] {
				gone[o.GetUID()] = true
				continue
			}
			for _, ref := range references(o.Object) {
				used[Ref{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}] = true
			}
		}
	}
	return used, nil
}

// references finds references to Secrets and ConfigMaps anywhere in a pod or a template. In a
// core/v1 PodSpec, the fields that name one are secretName (volumes), and name below secret,
// secretRef, secretKeyRef, configMap, configMapRef, configMapKeyRef, imagePullSecrets.
func references(v any) []corev1.TypedLocalObjectReference {
	var all []corev1.TypedLocalObjectReference
	add := func(kind string, v any) {
		if m, ok := v.(map[string]any); ok {
			if name, ok := m["name"].(string); ok {
				all = append(all, corev1.TypedLocalObjectReference{Kind: kind, Name: name})
			}
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			switch k {
			case "secretName":
				if name, ok := e.(string); ok {
					all = append(all, corev1.TypedLocalObjectReference{Kind: "Secret", Name: name})
				}
			case "secret", "secretRef", "secretKeyRef":
				add("Secret", e)
			case "configMap", "configMapRef", "configMapKeyRef":
				add("ConfigMap", e)
			case "imagePullSecrets":
				list, _ := e.([]any)
				for _, s := range list {
					add("Secret", s)
				}
			}
			all = append(all, references(e)...)
		}
	case []any:
		for _, e := range v {
			all = append(all, references(e)...)
		}
	}
	return all
}
