package cluster_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// A Keystone that does not answer is told, and does not keep the rest of a plan from being made. One
// that does not run yet has no endpoints.
func TestPlanEndpointsWithoutKeystone(t *testing.T) {
	c := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
	c.Spec.Name, c.Spec.Release, c.Spec.Address = "lab", region.ReleaseEpoxy, "127.77.0.3" // nothing listens there
	tree, err := json.Marshal(map[string]any{"keystone": map[string]any{"admin_password": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	secrets := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: openstack.Namespace("lab"), Name: openstack.SecretName},
		Data: map[string][]byte{openstack.SecretKey: tree}}
	composer, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	values, _, err := composer.Source().Values(configgen.Cluster{Declaration: &c.Spec.OpenStackDeclaration, Region: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		there []client.Object
		want  string
	}{
		"it is not there yet": {nil, ""},
		"it has no secrets":   {[]client.Object{c.DeepCopy()}, ""},
		"it does not answer":  {[]client.Object{c.DeepCopy(), secrets}, "endpoints that are no longer declared are not in this plan: "},
	} {
		api := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(tt.there...).Build()
		of, err := plan.OfState(t.Context(), api, plan.Facts{Input: openstack.Input{Cluster: c}}, &openstack.State{Values: values})
		if err != nil {
			t.Fatal(err)
		}
		of.Warnings = nil
		if err := cluster.PlanEndpoints(t.Context(), api, &plan.Plan{Clusters: []*plan.Cluster{of}}, []*region.OpenStackCluster{c}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(of.Warnings, "; "); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got the warning %q, want %q", name, got, tt.want)
		}
	}
}
