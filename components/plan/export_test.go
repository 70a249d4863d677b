package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/openstack"
)

// WithObjects returns a plan with the objects that it declares.
func WithObjects(p Plan, objects ...*unstructured.Unstructured) *Plan {
	p.objects = objects
	return &p
}

// WithState returns a cluster's plan with its desired state.
func WithState(c Cluster, s *openstack.State) *Cluster {
	c.state = s
	return &c
}
