package configgen

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/region"
)

// testSource returns testdata/source with option data for tests. changes replace files; an empty
// one removes the file.
func testSource(t testing.TB, changes map[string]string) (*Source, error) {
	t.Helper()
	m := fstest.MapFS{}
	root := os.DirFS("testdata/source")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, p)
		m[p] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range changes {
		m[name] = &fstest.MapFile{Data: []byte(content)}
		if content == "" {
			delete(m, name)
		}
	}
	s, err := Load(Templates{Name: "openstack", FS: m})
	if err != nil {
		return nil, err
	}
	s.options = map[string]optionData{}
	for _, release := range []string{"epoxy", "gazpacho"} {
		data, err := os.ReadFile("testdata/options-" + release + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if s.options[release], err = parseOptions(data); err != nil {
			t.Fatal(err)
		}
	}
	return s, nil
}

func mustSource(t testing.TB, changes map[string]string) *Source {
	t.Helper()
	s, err := testSource(t, changes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func raw(json string) *runtime.RawExtension {
	if json == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: []byte(json)}
}

func testCluster(values, overrides string, nodes ...region.OpenStackNodeValues) Cluster {
	return Cluster{
		Region: "lab", Field: "spec.openstack.clusters[0]",
		Declaration: &region.OpenStackDeclaration{Name: "lab", Release: region.ReleaseEpoxy, Address: "10.99.0.1",
			PhysicalNetworks: []region.PhysicalNetwork{{Name: "physnet1", Interface: "data0", VLANs: "100-199"}, {Name: "flat", Interface: "data1"}},
			Values:           raw(values), Overrides: raw(overrides), Nodes: nodes},
		Position: func(path string) (string, int, bool) {
			return "region.yaml", len(path), strings.Contains(path, ".values.") || strings.Contains(path, ".overrides.")
		},
		Secrets: map[string]any{"nova": map[string]any{"password": "S3CRET", "database": map[string]any{"password": "dbpass"}, "keys": []any{"k0", "k1"}}},
	}
}

func own(name, values, overrides string) region.OpenStackNodeValues {
	return region.OpenStackNodeValues{Name: name, Values: raw(values), Overrides: raw(overrides)}
}

func mustValues(t testing.TB, s *Source, c Cluster) *Values {
	t.Helper()
	v, warnings, err := s.Values(c)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return v
}

var node1 = Node{Name: "node1", Address: "10.99.0.11"}

// golden compares with a file of testdata/golden, which it rewrites if UPDATE is set.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata/golden", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestGolden(t *testing.T) {
	c := testCluster(`{"nova": {"cpu_models": ["qemu64", "Nehalem"], "conf": {
		"DEFAULT": {"reserved_host_memory_mb": 512}, "pci": {"alias": ["x", "y"]}}}}`, "",
		own("node2", `{"nova": {"conf": {"libvirt": {"virt_type": "qemu"}}}}`, `{"nova": {"cpu_models": []}}`))
	var first string
	for range 2 { // the same input gives the same bytes
		s := mustSource(t, nil)
		v := mustValues(t, s, c)
		var b strings.Builder
		files, warnings, err := s.Render(v, "nova")
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		for _, f := range files {
			fmt.Fprintf(&b, "== nova %s %s %s:%s\n%s", f.Path, f.Mode, f.Owner, f.Group, f.Content)
		}
		for _, n := range []Node{node1, {Name: "node2", Address: "10.99.0.12"}} {
			conf, warnings, err := s.Node(v, n)
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			for _, f := range conf.Files {
				fmt.Fprintf(&b, "== %s %s %s %s:%s %v\n%s", n.Name, f.Path, f.Mode, f.Owner, f.Group, f.Network, f.Content)
			}
			services, err := json.Marshal(conf.Services)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s\n", services)
			if _, _, err := conf.Encode(); err != nil {
				t.Error(err)
			}
		}
		if first == "" {
			first = b.String()
			golden(t, "render.txt", []byte(first))
		} else if b.String() != first {
			t.Error("two runs differ")
		}
	}
}
