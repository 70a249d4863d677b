package plan_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

// Changes applied to a cluster that is being removed would be lost, although the plan promised
// them.
func TestClusterThatIsBeingRemovedIsNotPlanned(t *testing.T) {
	c := fakeAPI(t, &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", DeletionTimestamp: ptr.To(metav1.Now()),
		Finalizers: []string{"regiond.dev/openstack"}}}).Build()
	_, err := plan.OfCluster(t.Context(), c, &region.Region{}, &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}})
	if want := "OpenStack cluster lab: it is being removed; apply again when it is gone"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A change of a field that is fixed for the life of a control plane is refused before anything is
// written, and fields that take effect at the next start are named.
func TestFixedFieldsAreRefused(t *testing.T) {
	planned := func(fields ...rollout.Field) *plan.Plan {
		for i := range fields {
			fields[i].Effects = region.Effects(fields[i].Path)
		}
		return &plan.Plan{Declarations: []rollout.Change{{Action: rollout.ActionUpdate, Object: rollout.Ref{Kind: "Region", Name: "r1"}, Fields: fields}}}
	}
	servers := rollout.Field{Path: "spec.networks.provisioning.dhcp.range", Old: "10.99.0.100-10.99.0.199", New: "10.99.0.100-10.99.0.150"}
	if p := planned(servers); p.Allowed(false) != nil || !slices.Equal(p.AtStart(), []string{servers.Path}) {
		t.Errorf("got %v, at start %v; want allowed, at start %s", p.Allowed(false), p.AtStart(), servers.Path)
	}
	for _, path := range []string{"spec.controlPlane.podCIDR", "spec.controlPlane.serviceCIDR", "spec.networks.management.address"} {
		err := planned(servers, rollout.Field{Path: path, Old: "was", New: "is"}).Allowed(true)
		if err == nil || !strings.Contains(err.Error(), path+" is fixed for the life of a control plane: it was created with was, the file has is") {
			t.Errorf("%s: got %v, want a refusal", path, err)
		}
		if err := planned(rollout.Field{Path: path, New: "is"}).Allowed(true); err != nil {
			t.Errorf("%s was not stored before: got %v, want no refusal", path, err)
		}
	}
}
