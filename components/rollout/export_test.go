package rollout

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/openstack"
)

// NewChange is a change with what it was found by, for tests of what follows from it.
func NewChange(action Action, live, result *unstructured.Unstructured) Change {
	c := Change{Action: action, Object: refOf(result), live: live, result: result}
	if action == ActionUpdate {
		c.Fields = Diff(live, result)
	}
	c.Consequence = consequence(c)
	return c
}

// PodWaits is podWaits.
var PodWaits = podWaits

// WithObjects is a plan with what it declares.
func WithObjects(p Plan, objects ...*unstructured.Unstructured) *Plan {
	p.objects = objects
	return &p
}

// WithState is a cluster's plan with what is to be.
func WithState(c ClusterPlan, s *openstack.State) *ClusterPlan {
	c.state = s
	return &c
}
