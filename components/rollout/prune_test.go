package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/rollout"
)

// TestPruneDeletesConfigurationOfStoppedPods: Prune leaves only configuration in use, so that the
// next plan is empty.
func TestPruneDeletesConfigurationOfStoppedPods(t *testing.T) {
	labels := map[string]string{"example.com/cluster": "lab"}
	meta := func(name, owner string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "openstack-lab", Name: name, UID: types.UID(name)}
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
		}
		return m
	}
	ours := func(name string) metav1.ObjectMeta {
		m := meta(name, "")
		m.Labels = labels
		return m
	}
	uses := func(secret string) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}}
	}
	ending := meta("ending", "")
	ending.DeletionTimestamp, ending.Finalizers = ptr.To(metav1.Now()), []string{"example.com/holds"}
	objects := []client.Object{
		&batchv1.Job{ObjectMeta: ours("schema-old")}, &corev1.Pod{ObjectMeta: meta("schema-old-x", "schema-old"), Spec: uses("config-schema-old")},
		&appsv1.Deployment{ObjectMeta: ours("gone")}, &appsv1.ReplicaSet{ObjectMeta: meta("gone-1", "gone"), Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: uses("config-gone")}}},
		&corev1.Pod{ObjectMeta: meta("gone-1-x", "gone-1"), Spec: uses("config-gone")},
		&corev1.Pod{ObjectMeta: ending, Spec: uses("config-ending")},
		&corev1.Pod{ObjectMeta: meta("runs", "elsewhere"), Spec: uses("config-used")},
	}
	for _, secret := range []string{"config-schema-old", "config-gone", "config-ending", "config-used", "config-unused", "passwords"} {
		objects = append(objects, &corev1.Secret{ObjectMeta: ours(secret)})
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	owned := rollout.Owned{Namespace: "openstack-lab", Labels: labels, Kept: []rollout.Ref{{Kind: "Secret", Namespace: "openstack-lab", Name: "passwords"}}}
	pruned, err := rollout.Prune(t.Context(), c, owned, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ref := range pruned {
		got = append(got, ref.Kind+" "+ref.Name)
	}
	slices.Sort(got)
	want := []string{"Deployment gone", "Job schema-old", "Secret config-ending", "Secret config-gone", "Secret config-schema-old", "Secret config-unused"}
	if !slices.Equal(got, want) {
		t.Errorf("pruned %v, want %v", got, want)
	}
	if again, err := rollout.Prune(t.Context(), c, owned, nil); err != nil || len(again) > 0 {
		t.Errorf("the second time: pruned %s, %v; want nothing, or a plan would show it", fmt.Sprint(again), err)
	}
}
