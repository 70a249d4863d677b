package openstack_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// programInput returns a cluster for this program's own templates and manifests.
func programInput(release region.OpenStackRelease) openstack.Input {
	images := map[string]oci.Image{}
	for _, name := range []string{"mariadb", "rabbitmq", "memcached", "keystone", "placement", "glance", "nova", "neutron", "client"} {
		images[name] = oci.Image{Repository: "openstack/" + string(release) + "/" + name, Digest: "sha256:" + strings.Repeat("a", 64), Version: "1"}
	}
	return openstack.Input{
		Cluster: &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Spec: region.OpenStackClusterSpec{OpenStackDeclaration: region.OpenStackDeclaration{
			Name: "lab", Release: release, Address: "10.99.0.1", PhysicalNetworks: []region.PhysicalNetwork{{Name: "physnet1", Interface: "data0", VLANs: "100-199"}}}}},
		RegionName: "r1", DataDir: "/var/lib/regiond", Images: oci.Set{Release: string(release), Images: images},
		Hosts: []openstack.Host{{Name: "node1", Address: "10.99.0.101"}},
	}
}

func program(t *testing.T, release region.OpenStackRelease) *openstack.State {
	t.Helper()
	s, err := openstack.Desired(programInput(release))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProgram(t *testing.T) {
	for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		t.Run(string(release), func(t *testing.T) {
			s := program(t, release)
			strict := serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
			gates := map[string]string{}
			for _, o := range s.Objects {
				b, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := strict.Decode(b, nil, nil); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
				gates[o.GetAnnotations()[openstack.AnnotationGate]] += o.GetKind() + " "
			}
			for _, gate := range region.Gates {
				if kinds := gates[gate]; !strings.Contains(kinds, "Deployment") && !strings.Contains(kinds, "StatefulSet") {
					t.Errorf("gate %s has no workload: %s", gate, kinds)
				}
			}
			conf, ok := s.Nodes["node1"]
			if _, _, err := conf.Encode(); err != nil || !ok || len(conf.Services) == 0 {
				t.Errorf("got %v, services %+v of a host", err, conf.Services)
			}
		})
	}
}

// hash matches names that end with a hash of the content.
var hash = regexp.MustCompile(`\b((?:config|schema|scripts)[a-z-]*)-[0-9a-z]{10}\b`)

// TestGolden shows reviewers how a change of templates and manifests affects a cluster, except for
// the contents of Secrets and scripts.
func TestGolden(t *testing.T) {
	s := program(t, region.ReleaseEpoxy)
	var b bytes.Buffer
	for _, o := range s.Objects {
		o := o.DeepCopy()
		if o.GetKind() == "Secret" || o.GetKind() == "ConfigMap" {
			keys(t, o)
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "---\n%s", hash.ReplaceAll(text, []byte("$1-HASH")))
	}
	const name = "testdata/epoxy.yaml"
	if *update {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(b.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%s:%d: want %q, got %q; if the change is intended: go test ./components/openstack -update", name, i+1, line, got[min(i, len(got)-1)])
		}
	}
}

// keys reduces an object's data to the names of the files.
func keys(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	var all []any
	for _, k := range slices.Sorted(maps.Keys(data)) {
		all = append(all, k)
	}
	o.Object["data"] = all
}
