package plan_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// What is applied to a cluster that is being removed would go with it, and the plan would have said otherwise.
func TestClusterThatIsBeingRemovedIsNotPlanned(t *testing.T) {
	c := fakeAPI(t, &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", DeletionTimestamp: ptr.To(metav1.Now()),
		Finalizers: []string{"regiond.dev/openstack"}}}).Build()
	_, err := plan.OfCluster(t.Context(), c, &region.Region{}, &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}})
	if want := "OpenStack cluster lab: it is being removed; apply again when it is gone"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
