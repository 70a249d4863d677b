package openstack_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// TestComputeRPCIsPinned: while hosts of two releases run, no service of Nova sends a nova-compute
// what only a newer one understands. Without a pin, each sends the newest version that it knows
// itself.
func TestComputeRPCIsPinned(t *testing.T) {
	const pin = "\n[upgrade_levels]\ncompute = auto\n"
	for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		in := programInput(release)
		in.Hosts = append(in.Hosts, openstack.Host{Name: "node2", Address: "10.99.0.102", Release: region.ReleaseEpoxy}) // not upgraded yet
		s, err := openstack.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, f := range s.Configs["nova"] {
			files["pods "+f.Path] = f.Content
		}
		for _, node := range []string{"node1", "node2"} {
			for _, f := range s.Nodes[node].Files {
				files[node+" "+f.Path] = f.Content
			}
		}
		for _, name := range []string{"pods /etc/nova/nova.conf", "node1 /etc/nova/nova.conf", "node2 /etc/nova/nova.conf"} {
			if got := strings.Count(files[name], pin); got != 1 {
				t.Errorf("%s, %s: got %d occurrences of %q, want one", release, name, got, pin)
			}
		}
	}
}
