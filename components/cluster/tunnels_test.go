package cluster_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/region"
)

// TestBlockedTunnelsAreTold: the condition Configured says between which hosts large packets are
// lost, and what to do.
func TestBlockedTunnelsAreTold(t *testing.T) {
	blocked := func(name, address string, to ...string) cluster.NodeFacts {
		return cluster.NodeFacts{Name: name, Address: address, Tunnels: &region.HostTunnels{MTU: 1500, Blocked: to}}
	}
	const begin, end = "the configuration was rendered and applied; packets of 1500 bytes, which guests' tunnels need, don't get ",
		": set an MTU of at least 1500 on every interface and switch between, or a smaller neutron.global_physnet_mtu"
	for name, tc := range map[string]struct {
		nodes []cluster.NodeFacts
		want  string
	}{
		"no tunnels": {[]cluster.NodeFacts{{Name: "n1", Address: "10.0.0.1"}}, "the configuration was rendered and applied"},
		"all pass":   {[]cluster.NodeFacts{blocked("n1", "10.0.0.1"), blocked("n2", "10.0.0.2")}, "the configuration was rendered and applied"},
		"one way": {[]cluster.NodeFacts{blocked("n1", "10.0.0.1", "10.0.0.2"), blocked("n2", "10.0.0.2")},
			begin + "from n1 to n2" + end},
		"an address that no host has": {[]cluster.NodeFacts{blocked("n1", "10.0.0.1", "10.9.0.2", "10.9.0.3")},
			begin + "from n1 to 10.9.0.2 and 10.9.0.3" + end},
		"many": {[]cluster.NodeFacts{blocked("n1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"),
			blocked("n2", "10.0.0.2", "10.0.0.1"), blocked("n3", "10.0.0.3", "10.0.0.1"), blocked("n4", "10.0.0.4", "10.0.0.1"),
			blocked("n5", "10.0.0.5", "10.0.0.1")},
			begin + "from n1 to n2, n3, n4 and 2 others, from n2 to n1, from n3 to n1, and from 2 other hosts" + end},
	} {
		f := settled()
		f.Nodes = tc.nodes
		if got := condition(t, cluster.Decide(f, now), region.ConditionConfigured); got.Message != tc.want || got.Status != "True" {
			t.Errorf("%s: got %s %q, want True %q", name, got.Status, got.Message, tc.want)
		}
	}
	f := settled()
	f.Warnings, f.Nodes = []string{strings.Repeat("a value is not used ", 40)}, []cluster.NodeFacts{blocked("n1", "10.0.0.1", "10.0.0.2")}
	if got := condition(t, cluster.Decide(f, now), region.ConditionConfigured); !strings.Contains(got.Message, end) {
		t.Errorf("among long warnings: got %q, want it to say what to do", got.Message)
	}
}
