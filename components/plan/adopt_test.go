package plan_test

import (
	"slices"
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/images/oci"
)

// A container that an operator's patch adds belongs to no image set, so it does not tell which set
// the cluster runs.
func TestRunningImagesAreThoseOfRegiond(t *testing.T) {
	o := object(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: openstack-lab, name: keystone, labels: {regiond.dev/openstack-cluster: lab}}
spec:
  template:
    spec:
      initContainers: [{name: init, image: docker.io/library/busybox:1}]
      containers: [{name: keystone, image: `+oci.Registry+`/openstack/epoxy/keystone@sha256:1}, {name: logs, image: `+oci.Registry+`.example.com/x}]
`)
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(o).Build()
	got, err := plan.Running(t.Context(), c, "lab")
	if want := []string{oci.Registry + "/openstack/epoxy/keystone@sha256:1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
