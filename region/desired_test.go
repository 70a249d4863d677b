package region_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/region"
)

func TestDesiredLeavesEmptyMappingsOut(t *testing.T) {
	r := &region.Region{}
	r.Name, r.UID = "r1", "x"
	r.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "lab", Values: &runtime.RawExtension{Raw: []byte(`{"nova": {"conf": {}}, "glance": {"x": []}}`)}}}
	u, err := r.Desired()
	if err != nil {
		t.Fatal(err)
	}
	spec := u.Object["spec"].(map[string]any)
	if _, there := spec["hardware"]; there || u.GetUID() != "" || u.Object["status"] != nil {
		t.Errorf("got %v", u.Object)
	}
	want := map[string]any{"clusters": []any{map[string]any{"name": "lab", "values": map[string]any{"glance": map[string]any{"x": []any{}}}}}}
	if !reflect.DeepEqual(spec["openstack"], want) {
		t.Errorf("got %v", spec["openstack"])
	}
	c := &region.OpenStackCluster{Spec: region.OpenStackClusterSpec{OpenStackDeclaration: r.Spec.OpenStack.Clusters[0]}}
	c.Name, c.UID, c.Status.ObservedGeneration = "lab", "x", 1
	if u, err = c.Desired(); err != nil || u.GetKind() != "OpenStackCluster" || u.GetName() != "lab" || u.GetUID() != "" || u.Object["status"] != nil {
		t.Errorf("%v %v", err, u)
	}
}
