package plan_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/machine/configuration"
)

// TestDigest: a plan that does something else has a different digest, even if the plan shows only a
// part of a value; a plan with other warnings does not.
func TestDigest(t *testing.T) {
	long := strings.Repeat("x", 1000)
	made := func(change func(*plan.Plan, *plan.Cluster, *openstack.State, *unstructured.Unstructured)) string {
		declared := object(t, "apiVersion: regiond.dev/v1alpha1\nkind: OpenStackCluster\nmetadata: {name: lab}\nspec: {a: "+long+"1}")
		p := plan.Plan{Region: "r1", Declarations: []rollout.Change{{Action: rollout.ActionUpdate, Object: rollout.Ref{Kind: "OpenStackCluster", Name: "lab"},
			Fields: []rollout.Field{{Path: "spec.a", Old: "y", New: long[:160] + "…"}}}}}
		c := plan.Cluster{Cluster: "lab", Release: "epoxy"}
		s := &openstack.State{Objects: []*unstructured.Unstructured{object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: config}\nstringData: {a: "+long+"1}")},
			Nodes: map[string]configuration.Configuration{"node1": {Files: []configuration.File{{Path: "/etc/nova/nova.conf", Content: long + "1"}}}}}
		if change != nil {
			change(&p, &c, s, declared)
		}
		p.Clusters = []*plan.Cluster{plan.WithState(c, s)}
		return plan.WithObjects(p, declared).Digest()
	}
	type parts = func(*plan.Plan, *plan.Cluster, *openstack.State, *unstructured.Unstructured)
	base := made(nil)
	if again := made(nil); again != base || len(base) != 24 {
		t.Errorf("the same plan has the digests %s and %s", base, again)
	}
	for name, change := range map[string]parts{
		"the end of a long value": func(_ *plan.Plan, _ *plan.Cluster, _ *openstack.State, o *unstructured.Unstructured) {
			o.Object["spec"] = map[string]any{"a": long + "2"}
		},
		"an object that pods get": func(_ *plan.Plan, _ *plan.Cluster, s *openstack.State, _ *unstructured.Unstructured) {
			s.Objects[0].Object["stringData"] = map[string]any{"a": long + "2"}
		},
		"a file of a node": func(_ *plan.Plan, _ *plan.Cluster, s *openstack.State, _ *unstructured.Unstructured) {
			s.Nodes["node1"].Files[0].Content = long + "2"
		},
		"an endpoint": func(_ *plan.Plan, c *plan.Cluster, _ *openstack.State, _ *unstructured.Unstructured) {
			c.Endpoints = []string{"of image"}
		},
		"a change": func(p *plan.Plan, _ *plan.Cluster, _ *openstack.State, _ *unstructured.Unstructured) {
			p.Declarations[0].Action = rollout.ActionReplace
		},
	} {
		if made(change) == base {
			t.Errorf("%s makes no difference", name)
		}
	}
	if got := made(func(_ *plan.Plan, c *plan.Cluster, _ *openstack.State, _ *unstructured.Unstructured) {
		c.Warnings = []string{"it rains"}
	}); got != base {
		t.Error("a warning makes a difference")
	}
}
