package cluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/region"
)

func TestStatusOfManyNodesFits(t *testing.T) {
	var nodes []region.OpenStackNode
	for i := range 10000 {
		n := region.OpenStackNode{Name: fmt.Sprintf("node%05d", i), Ready: i%1000 != 7}
		if !n.Ready {
			n.Message = strings.Repeat("m", 600)
		}
		nodes = append(nodes, n)
	}
	s := &region.OpenStackClusterStatus{}
	cluster.Summarise(s, nodes)
	if s.NodesTotal != 10000 || s.NodesReady != 9990 || len(s.Nodes) != region.MaxListedNodes {
		t.Errorf("%d of %d ready, %d listed", s.NodesReady, s.NodesTotal, len(s.Nodes))
	}
	for i, n := range s.Nodes {
		if n.Ready != (i >= 10) || i > 0 && n.Ready == s.Nodes[i-1].Ready && n.Name <= s.Nodes[i-1].Name {
			t.Fatalf("node %d listed is %+v: want those that are not ready first, each by name", i, n)
		}
	}
	if b, err := json.Marshal(s); err != nil || len(b) > 64<<10 {
		t.Errorf("the status has %d bytes (%v)", len(b), err)
	}
	// All are not ready.
	for i := range nodes {
		nodes[i].Ready, nodes[i].Message = false, strings.Repeat("m", 600)
	}
	cluster.Summarise(s, nodes)
	if b, err := json.Marshal(s); err != nil || len(b) > 64<<10 {
		t.Errorf("the status has %d bytes (%v)", len(b), err)
	}
}
