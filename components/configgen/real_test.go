package configgen

import (
	"crypto/sha256"
	"testing"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/region"
)

// endless is an endless stream of bytes that is the same in every run.
type endless struct {
	n    byte
	left []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.left) == 0 {
		sum := sha256.Sum256([]byte{e.n})
		e.left, e.n = sum[:], e.n+1
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// realCluster returns a cluster for regiond's own templates.
func realCluster(t testing.TB, s *Source, release region.OpenStackRelease) Cluster {
	t.Helper()
	tree, _, err := secrets.Generate(s.Secrets(), nil, nil, &endless{})
	if err != nil {
		t.Fatal(err)
	}
	return Cluster{
		Region: "lab", Secrets: tree, Declaration: &region.OpenStackDeclaration{Name: "lab", Release: release, Address: "10.99.0.1",
			PhysicalNetworks: []region.PhysicalNetwork{{Name: "physnet1", Interface: "data0", VLANs: "100-199"}},
			Nodes: []region.OpenStackNodeValues{own("node2", "",
				`{"nova": {"virt_type": "qemu", "conf": {"DEFAULT": {"reserved_host_memory_mb": 64}}}}`)}},
	}
}

var realNodes = []Node{
	{Name: node1.Name, Address: node1.Address, Secrets: map[string]string{NodeKeystonePassword: "k1", NodeRabbitMQPassword: "r1"}},
	{Name: "node2", Address: "10.99.0.12", Registration: "6d3d1f60-0cb3-4b2d-9ef2-ab02ec6f41f5",
		Secrets: map[string]string{NodeKeystonePassword: "k2", NodeRabbitMQPassword: "r2"}}}

// regiond's own templates render for every release, role and node, and use only options of the
// release.
func TestCarriedTemplates(t *testing.T) {
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		v := mustValues(t, s, realCluster(t, s, release))
		for _, role := range s.Roles() {
			if role == RoleCompute {
				continue
			}
			if _, warnings, err := s.Render(v, role); err != nil || len(warnings) > 0 {
				t.Errorf("%s, role %s: %v\n%v", release, role, err, warnings)
			}
		}
		for _, n := range realNodes {
			if _, warnings, err := s.Node(v, n); err != nil || len(warnings) > 0 {
				t.Errorf("%s, %s: %v\n%v", release, n.Name, err, warnings)
			}
		}
	}
}

var realDeclaration = &region.OpenStackDeclaration{Name: "lab", Release: region.ReleaseEpoxy}
