package openstack_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// TestArchiveRendersTheSame: the archive that a cluster is pinned to renders the same as the
// program's own templates.
func TestArchiveRendersTheSame(t *testing.T) {
	own, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := own.Archive()
	if err != nil {
		t.Fatal(err)
	}
	again, err := own.Archive()
	if err != nil || !bytes.Equal(archive, again) {
		t.Errorf("the same templates are packed into different bytes (%v)", err)
	}
	t.Logf("the archive has %d bytes", len(archive))
	if len(archive) > 256<<10 {
		t.Errorf("the archive has %d bytes, which is close to what an object holds", len(archive))
	}
	opened, err := openstack.Open(archive, own.Digest())
	if err != nil {
		t.Fatal(err)
	}
	in := programInput(region.ReleaseEpoxy)
	want, err := own.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := opened.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Objects, want.Objects) || !reflect.DeepEqual(got.Nodes, want.Nodes) {
		t.Error("the archive renders different output from the templates that it was made from")
	}
	if !reflect.DeepEqual(opened.Source().Secrets(), own.Source().Secrets()) {
		t.Error("the archive declares different secrets")
	}
}

func TestDamagedArchiveIsRefused(t *testing.T) {
	own, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := own.Archive()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"empty": nil, "cut": archive[:len(archive)/2], "not an archive": []byte("templates")} {
		if _, err := openstack.Open(content, own.Digest()); err == nil || !strings.Contains(err.Error(), own.Digest()) {
			t.Errorf("%s: got %v, want an error that names the digest", name, err)
		}
	}
	other := strings.Repeat("0", 64)
	if _, err := openstack.Open(archive, other); err == nil || !strings.Contains(err.Error(), own.Digest()) || !strings.Contains(err.Error(), "regiond apply") {
		t.Errorf("another digest: got %v, want an error with both digests", err)
	}
}

func TestPinHoldsTheImageSet(t *testing.T) {
	set := oci.Set{Release: "epoxy", Debian: "trixie", Recipe: "r", Built: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Images: map[string]oci.Image{
		"nova":     {Repository: "openstack/epoxy/nova", Digest: "sha256:1", Version: "3:31", Bytes: 7},
		"keystone": {Repository: "openstack/epoxy/keystone", Digest: "sha256:2"}}}
	p := openstack.NewPin("t", set)
	if got := openstack.PinnedImages(p); !reflect.DeepEqual(got, set) {
		t.Errorf("got %+v, want %+v", got, set)
	}
	if p.Images.Images[0].Name != "keystone" {
		t.Errorf("images are not in order: %+v", p.Images.Images)
	}
}

func TestSetOfRunningImages(t *testing.T) {
	set := func(release, digest string) oci.Set {
		return oci.Set{Release: release, Recipe: digest, Images: map[string]oci.Image{
			"nova":   {Repository: "openstack/epoxy/nova", Digest: "sha256:" + digest},
			"glance": {Repository: "openstack/epoxy/glance", Digest: "sha256:glance"}}}
	}
	sets := []oci.Set{set("epoxy", "new"), set("epoxy", "old")}
	for _, c := range []struct {
		name    string
		running []string
		want    string
		found   bool
	}{
		{"the set before the current one", []string{oci.Registry + "/openstack/epoxy/nova@sha256:old", oci.Registry + "/openstack/epoxy/glance@sha256:glance"}, "old", true},
		{"an image in both sets", []string{oci.Registry + "/openstack/epoxy/glance@sha256:glance"}, "new", true},
		{"halfway from one set to another", []string{oci.Registry + "/openstack/epoxy/nova@sha256:old", oci.Registry + "/openstack/epoxy/nova@sha256:new"}, "", false},
		{"an image of no set", []string{"example.org/nova@sha256:old"}, "", false},
	} {
		got, found := openstack.SetOf(sets, c.running)
		if found != c.found || got.Recipe != c.want {
			t.Errorf("%s: got %q %v, want %q %v", c.name, got.Recipe, found, c.want, c.found)
		}
	}
}
