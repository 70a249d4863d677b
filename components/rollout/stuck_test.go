package rollout_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/rollout"
)

// TestReplaceStuck: only a pod that Kubernetes would not replace itself is deleted.
func TestReplaceStuck(t *testing.T) {
	pod := func(n int, revision string, ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: fmt.Sprintf("rabbitmq-%d", n), UID: types.UID(fmt.Sprint("pod-", n)),
			Labels:          map[string]string{"app": "rabbitmq", appsv1.StatefulSetRevisionLabel: revision},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "rabbitmq", UID: "set", Controller: ptr.To(true)}}}}
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		return p
	}
	change := func(p *corev1.Pod, f func(*corev1.Pod)) *corev1.Pod { f(p); return p }
	for _, tt := range []struct {
		name   string
		change func(*appsv1.StatefulSet)
		pods   []*corev1.Pod
		want   string
	}{
		{"crashes in an older revision", nil, []*corev1.Pod{pod(0, "r1", false)}, "rabbitmq-0"},
		{"crashes in this revision", nil, []*corev1.Pod{pod(0, "r2", false)}, ""},
		{"ready in an older revision", nil, []*corev1.Pod{pod(0, "r1", true)}, ""},
		{"the highest ordinal first", nil, []*corev1.Pod{pod(0, "r1", false), pod(10, "r1", false), pod(9, "r1", false), pod(11, "r2", true)}, "rabbitmq-10"},
		{"one at a time", nil, []*corev1.Pod{pod(0, "r1", false), change(pod(1, "r1", false), func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"example.com/holds"}
		})}, ""},
		{"the change was not seen yet", func(s *appsv1.StatefulSet) { s.Generation = 8 }, []*corev1.Pod{pod(0, "r1", false)}, ""},
		{"no revision yet", func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "" }, []*corev1.Pod{pod(0, "r1", false)}, ""},
		{"left to the operator", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }, []*corev1.Pod{pod(0, "r1", false)}, ""},
		{"below the partition", func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(1))}
		}, []*corev1.Pod{pod(0, "r1", false)}, ""},
		{"a pod of something else", nil, []*corev1.Pod{change(pod(0, "r1", false), func(p *corev1.Pod) { p.OwnerReferences[0].UID = "another" })}, ""},
		{"a pod without a revision", nil, []*corev1.Pod{pod(0, "", false)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "rabbitmq", UID: "set", Generation: 7},
				Spec:   appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "rabbitmq"}}},
				Status: appsv1.StatefulSetStatus{ObservedGeneration: 7, UpdateRevision: "r2"}}
			if tt.change != nil {
				tt.change(set)
			}
			objects := []client.Object{set}
			for _, p := range tt.pods {
				objects = append(objects, p)
			}
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
			got, err := rollout.ReplaceStuck(t.Context(), c, object(t, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: rabbitmq, namespace: openstack-lab}"))
			if err != nil || got != tt.want {
				t.Fatalf("got %q, %v, want %q", got, err, tt.want)
			}
			for _, p := range tt.pods {
				err := c.Get(t.Context(), client.ObjectKeyFromObject(p), &corev1.Pod{})
				if deleted := apierrors.IsNotFound(err); deleted != (p.Name == tt.want) {
					t.Errorf("pod %s deleted: %v, %v", p.Name, deleted, err)
				}
			}
		})
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	if got, err := rollout.ReplaceStuck(t.Context(), c, object(t, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: gone, namespace: x}")); got != "" || err != nil {
		t.Errorf("a StatefulSet that does not exist: got %q, %v; want nothing", got, err)
	}
}
