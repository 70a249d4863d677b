package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/openstack"
)

// WithObjects is a plan with what it declares.
func WithObjects(p Plan, objects ...*unstructured.Unstructured) *Plan {
	p.objects = objects
	return &p
}

// WithState is a cluster's plan with what is to be.
func WithState(c Cluster, s *openstack.State) *Cluster {
	c.state = s
	return &c
}
