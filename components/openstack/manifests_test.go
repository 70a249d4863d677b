package openstack_test

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// Kustomize builds from the emitted base and overlay, including the operator's patches, the same
// objects that apply applies.
func TestManifestsAreWhatIsApplied(t *testing.T) {
	c, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		in := programInput(release)
		in.Cluster.Spec.Patches = []region.Patch{{File: "a.yaml", Content: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystone}\nspec:\n  template:\n" +
			"    spec:\n      volumes:\n        - {name: own, emptyDir: {}}\n      priorityClassName: high\n"}}
		disk := filesys.MakeFsInMemory()
		if err := c.Manifests(in, func(name string, content []byte) error { return disk.WriteFile(path.Join("/", name), content) }); err != nil {
			t.Fatal(err)
		}
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/overlay")
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, r := range built.Resources() {
			b, err := r.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, normal(t, b))
		}
		s, err := c.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range s.Objects {
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, normal(t, b))
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(want) < 20 {
			t.Fatalf("got %d objects to apply, want many more", len(want))
		}
		for _, o := range want {
			if !slices.Contains(got, o) {
				t.Errorf("%s: not built:\n%s", release, o)
			}
		}
		for _, o := range got {
			if !slices.Contains(want, o) {
				t.Errorf("%s: built, but not applied:\n%s", release, o)
			}
		}
		if !strings.Contains(strings.Join(got, ""), `"priorityClassName":"high"`) {
			t.Error("the operator's patch is missing from the result")
		}
	}
}

// normal returns JSON with sorted keys.
func normal(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Manifests can be reviewed even where no images were built, e.g. on a laptop.
func TestManifestsWithoutImages(t *testing.T) {
	c, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	in := programInput(region.ReleaseEpoxy)
	if in.Images, err = openstack.UnbuiltImages("epoxy"); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	if err := c.Manifests(in, func(name string, content []byte) error { files[name] = string(content); return nil }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(files["overlay/kustomization.yaml"], "newName: registry.regiond.dev/openstack/epoxy/keystone") {
		t.Errorf("got\n%s\nwant images with placeholder digests", files["overlay/kustomization.yaml"])
	}
}
