package rollout

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReplaceStuck deletes the pod that blocks a StatefulSet's update, if there is one, and returns its
// name. Kubernetes replaces pods in order and waits for each to be ready: a pod that crashes
// because of its template is never replaced, even after the template has been corrected
// (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback).
func ReplaceStuck(ctx context.Context, c client.Client, o *unstructured.Unstructured) (string, error) {
	set := &appsv1.StatefulSet{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), set); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("%s: %w", RefOf(o), err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("pods of %s: %w", RefOf(o), err)
	}
	p := stuck(set, pods.Items)
	if p == nil {
		return "", nil
	}
	// With its resourceVersion as precondition: Kubernetes itself replaces a pod that has become ready
	// meanwhile.
	err = c.Delete(ctx, p, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("replace pod %s/%s of an older revision, which is not ready: %w", p.Namespace, p.Name, err)
	}
	return p.Name, nil
}

// stuck returns the pod with the highest ordinal, where an update begins, that is not ready and has
// an older revision than its StatefulSet. It returns nil while a pod is terminating, and until the
// StatefulSet controller has observed the change.
func stuck(set *appsv1.StatefulSet, pods []corev1.Pod) *corev1.Pod {
	strategy := set.Spec.UpdateStrategy
	if set.Status.UpdateRevision == "" || set.Status.ObservedGeneration < set.Generation || !set.DeletionTimestamp.IsZero() ||
		strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	first := 0 // that is updated
	if r := strategy.RollingUpdate; r != nil && r.Partition != nil {
		first = int(*r.Partition)
	}
	var worst *corev1.Pod
	highest := -1
	for i := range pods {
		p := &pods[i]
		if !metav1.IsControlledBy(p, set) {
			continue
		}
		if !p.DeletionTimestamp.IsZero() {
			return nil
		}
		n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
		older := p.Labels[appsv1.StatefulSetRevisionLabel] != "" && p.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision
		if err == nil && n >= first && n > highest && older && !podReady(p) {
			worst, highest = p, n
		}
	}
	return worst
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
