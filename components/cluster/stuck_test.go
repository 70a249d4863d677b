package cluster_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A value made the broker crash and was corrected: the pod that Kubernetes waits for in vain is replaced.
func TestStuckPodIsReplaced(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	set, pod := &appsv1.StatefulSet{}, &corev1.Pod{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "rabbitmq"}, set),
		w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "rabbitmq-0"}, pod))
	set.Status.UpdateRevision, set.Status.UpdatedReplicas, set.Status.AvailableReplicas = "right", 0, 0
	pod.Labels[appsv1.StatefulSetRevisionLabel] = "wrong"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
	w.must(w.api.Status().Update(t.Context(), set), w.api.Update(t.Context(), pod))
	if _, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "lab"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is there still: %v", err)
	}
	w.until(always(c), "ready again", w.ready)
}
