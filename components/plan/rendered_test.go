package plan_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// Without a control plane, the hosts of the file are rendered: those with values, and the servers
// whose profile belongs to the cluster or is unknown.
func TestNodesOfTheFile(t *testing.T) {
	r := &region.Region{}
	r.Spec.Hardware.Profiles = []region.Profile{
		{Name: "storage", Match: region.ProfileMatch{Name: "s*"}}, {Name: "big", Match: region.ProfileMatch{MinCPUs: 64}}, {Name: "compute"},
	}
	r.Spec.Hardware.Servers = []region.StaticServer{{Name: "n1", Profile: "compute"}, {Name: "s1"}, {Name: "x1"}}
	d := &region.OpenStackDeclaration{Name: "lab", Profiles: []string{"compute"}, Nodes: []region.OpenStackNodeValues{{Name: "node9"}}}
	nodes, err := plan.NodesOf(t.Context(), nil, r, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range nodes {
		got = append(got, n.Name+" "+n.Address)
	}
	want := "n1 <address:n1>, node9 <address:node9>, x1 <address:x1>"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	_, err = plan.NodesOf(t.Context(), nil, r, d, []string{"node8"})
	if err == nil || !strings.Contains(err.Error(), `--node node8: cluster lab has no such host in the region file`) || !strings.Contains(err.Error(), `"node9"`) {
		t.Errorf("got %v, want a refusal that guesses node9", err)
	}
}
