package cluster_test

import (
	"io/fs"
	"net/url"
	"os"
	"testing"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// The endpoints of the catalogue are at the cluster's address, which is the seed host's in the
// provisioning network unless another is declared, and the administrator logs in there.
func TestPublicEndpoints(t *testing.T) {
	b, err := os.ReadFile("../../region.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		declared string
		want     func(*region.Region) string
	}{
		"by default": {"", func(r *region.Region) string { return r.Spec.Networks.Provisioning.Address }},
		"declared":   {"10.20.0.77", func(*region.Region) string { return "10.20.0.77" }},
	} {
		doc, err := check.Load(b, "region.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r := doc.Region
		r.Spec.OpenStack.Clusters[0].Address = tc.declared
		region.Default(r)
		clusters, err := openstack.Clusters(r, func(string) ([]region.Patch, error) { return nil, fs.ErrNotExist })
		if err != nil {
			t.Fatal(err)
		}
		want := tc.want(r)
		found := map[string]bool{}
		for _, s := range cluster.Catalogue(clusters[0], func(string) (any, bool) { return nil, false }).Services {
			u, err := url.Parse(s.URL)
			if err != nil || u.Scheme != "http" || u.Hostname() != want {
				t.Errorf("%s: endpoint of %s: got %s, %v; want it at http://%s", name, s.Name, s.URL, err, want)
			}
			found[s.Name] = true
		}
		for _, of := range service.All {
			if (of.API != nil) != found[of.Name] {
				t.Errorf("%s: %s is in the catalogue: %t, want %t", name, of.Name, found[of.Name], of.API != nil)
			}
		}
		if got, want := cluster.Admin(clusters[0], nil).URL, service.Keystone.URL(want); got != want {
			t.Errorf("%s: the administrator logs in at %s, want %s", name, got, want)
		}
	}
}
