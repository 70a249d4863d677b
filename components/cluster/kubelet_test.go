package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
)

// kubelet runs what is there.
func (w *world) kubelet() {
	ctx := w.t.Context()
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var jobs batchv1.JobList
	var svcs corev1.ServiceList
	w.must(w.api.List(ctx, &deployments), w.api.List(ctx, &sets), w.api.List(ctx, &jobs), w.api.List(ctx, &svcs))
	for _, d := range deployments.Items {
		if strings.Contains(d.Spec.Template.Spec.Containers[0].Image, w.refusedImage) && w.refusedImage != "" {
			w.pod(d.Name, d.Spec.Selector, d.Labels, "ErrImagePull: "+d.Spec.Template.Spec.Containers[0].Image+": not found")
			continue
		}
		before := d.DeepCopy()
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
		w.status(before, &d)
		w.pod(d.Name, d.Spec.Selector, d.Labels, "")
	}
	w.collect(deployments.Items, sets.Items)
	for _, s := range sets.Items {
		before := s.DeepCopy()
		if s.Name == "mariadb" && !w.database() {
			w.pod(s.Name, s.Spec.Selector, s.Labels, "CrashLoopBackOff: the database's folder mariadb/data is missing")
			s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: 1, UpdatedReplicas: 1}
			w.status(before, &s)
			continue
		}
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
		w.status(before, &s)
		w.pod(s.Name, s.Spec.Selector, s.Labels, "")
	}
	for _, j := range jobs.Items {
		if len(j.Status.Conditions) > 0 || j.Name == w.busy {
			continue
		}
		done := metav1.NewTime(w.now)
		kind := batchv1.JobComplete
		if w.failing != "" && strings.HasPrefix(j.Name, w.failing) {
			kind = batchv1.JobFailed
		} else {
			j.Status.CompletionTime = &done
		}
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: done, Message: "as the test says"}}
		w.must(w.api.Status().Update(ctx, &j))
		if j.Name == "discover-hosts" && !w.stubborn {
			w.cloud.mapAll()
		}
	}
	for i, s := range svcs.Items {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = fmt.Sprintf("10.43.0.%d", 10+i)
			w.must(w.api.Update(ctx, &s))
		}
	}
}

// database plays the script of the database's container: it makes a database where it may.
func (w *world) database() bool {
	dir := filepath.Join(w.dir, "openstack", "lab", "mariadb")
	if _, err := os.Stat(filepath.Join(dir, "data", "ibdata1")); err == nil {
		return true
	}
	if _, err := os.Stat(filepath.Join(dir, "create")); err != nil {
		return false
	}
	w.must(os.MkdirAll(filepath.Join(dir, "data"), 0o755), os.WriteFile(filepath.Join(dir, "data", "ibdata1"), []byte("uid of this database"), 0o600),
		os.Remove(filepath.Join(dir, "create")))
	return true
}

// collect plays Kubernetes' garbage collector: pods of workloads that are gone go.
func (w *world) collect(deployments []appsv1.Deployment, sets []appsv1.StatefulSet) {
	there := map[client.ObjectKey]bool{}
	for _, d := range deployments {
		there[client.ObjectKeyFromObject(&d)] = true
	}
	for _, s := range sets {
		there[client.ObjectKeyFromObject(&s)] = true
	}
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods))
	for _, p := range pods.Items {
		if !there[client.ObjectKey{Namespace: p.Namespace, Name: p.Labels[openstack.LabelName]}] {
			w.must(w.api.Delete(w.t.Context(), &p))
		}
	}
}

// pod of a workload, which was started as often as the test says.
func (w *world) pod(name string, selector *metav1.LabelSelector, labels map[string]string, waiting string) {
	p := &corev1.Pod{}
	key := client.ObjectKey{Namespace: "openstack-lab", Name: name + "-0"}
	err := w.api.Get(w.t.Context(), key, p)
	if apierrors.IsNotFound(err) {
		p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(name), Labels: map[string]string{}}}
		for k, v := range labels {
			p.Labels[k] = v
		}
		for k, v := range selector.MatchLabels {
			p.Labels[k] = v
		}
		err = w.api.Create(w.t.Context(), p)
	}
	w.must(err)
	before := p.DeepCopy()
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: name, Ready: true}}
	if name == "rabbitmq" {
		p.Status.ContainerStatuses[0].RestartCount = int32(w.restarts)
	}
	if waiting != "" {
		reason, message, _ := strings.Cut(waiting, ": ")
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	w.status(before, p)
}

// status writes the status of an object if it changed: most reconciliations leave most of them as
// they are, and the fake client is slow.
func (w *world) status(before, o client.Object) {
	w.t.Helper()
	if !equality.Semantic.DeepEqual(before, o) {
		w.must(w.api.Status().Update(w.t.Context(), o))
	}
}
