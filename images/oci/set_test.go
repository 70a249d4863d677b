package oci

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"regiond.dev/regiond/images/debian"
)

// publishSet makes a set of images of one layer each the current one, as a build does.
func publishSet(t *testing.T, dir, release string, contents map[string]string) Set {
	t.Helper()
	set := Set{Release: release, Images: map[string]Image{}}
	for name, content := range contents {
		image, err := testImage(LayoutDir(dir), content)
		if err != nil {
			t.Fatal(err)
		}
		image.Repository = "openstack/" + release + "/" + name
		set.Images[name] = image
	}
	b := &build{recipe: &recipe{release: release}, config: &Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}, layout: LayoutDir(dir)}
	if err := b.publish(set, debian.Lock{"p": "1"}, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := collectGarbage(dir); err != nil {
		t.Fatal(err)
	}
	return set
}

func testImage(layout, content string) (Image, error) {
	w, err := newBlob(layout)
	if err != nil {
		return Image{}, err
	}
	if _, err := w.Write([]byte(content)); err != nil {
		return Image{}, err
	}
	digest, err := w.commit()
	if err != nil {
		return Image{}, err
	}
	manifest, size, err := writeImage(layout, v1.Config{User: "1:1"}, []layer{{digest, digest, int64(len(content)), types.OCIUncompressedLayer}})
	return Image{Digest: manifest.String(), Version: "1", Bytes: size}, err
}

// The set before the current one is kept, because its images may still be running. The one before
// that is removed.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	first := publishSet(t, dir, "epoxy", map[string]string{"keystone": "one", "nova": "n"})
	if got, err := Current(dir, "epoxy"); err != nil || !got.sameImages(first) {
		t.Fatalf("current %v, %v, want %v", got, err, first)
	}
	second := publishSet(t, dir, "epoxy", map[string]string{"keystone": "two", "nova": "n"})
	if err := errors.Join(Verify(dir, first.Images["keystone"]), Verify(dir, second.Images["keystone"])); err != nil {
		t.Error(err)
	}
	third := publishSet(t, dir, "epoxy", map[string]string{"keystone": "three", "nova": "n"})
	if err := Verify(dir, first.Images["keystone"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the set before the previous one: got error %v, want it gone", err)
	}
	if err := errors.Join(Verify(dir, second.Images["keystone"]), Verify(dir, third.Images["keystone"]), Verify(dir, third.Images["nova"])); err != nil {
		t.Error(err)
	}
	// Published again, the same set does not push the previous one out.
	publishSet(t, dir, "epoxy", map[string]string{"keystone": "three", "nova": "n"})
	kept, err := Kept(dir)
	if err != nil || len(kept) != 2 || !slices.ContainsFunc(kept, second.sameImages) {
		t.Errorf("kept %v, %v, want the current set and the one before", kept, err)
	}
	list, err := List(dir)
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Names(), []string{"keystone", "nova"}) {
		t.Errorf("list: got %v, error %v", list, err)
	}
}

// The images that a cluster runs are kept however often its release is built, until the cluster
// releases them.
func TestHeldImagesAreKept(t *testing.T) {
	dir := t.TempDir()
	publish := func(content string) Set { return publishSet(t, dir, "epoxy", map[string]string{"keystone": content}) }
	runs := publish("one")
	if err := Hold(dir, "lab", runs); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"two", "three", "four"} {
		publish(content)
	}
	if err := Verify(dir, runs.Images["keystone"]); err != nil {
		t.Errorf("the image that a cluster runs is gone: %v", err)
	}
	index, err := layout.ImageIndexFromPath(LayoutDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err := index.IndexManifest(); err != nil || len(manifest.Manifests) != 3 {
		t.Errorf("served: got %v, %v; want the current image, the previous one and the held one", manifest, err)
	}
	if err := errors.Join(Unhold(dir, "lab"), Unhold(dir, "lab")); err != nil {
		t.Fatal(err)
	}
	publish("five")
	if err := Verify(dir, runs.Images["keystone"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Unhold: got error %v, want the image gone", err)
	}
}

// go-containerregistry reads the layout and validates all its parts.
func TestLayoutIsSound(t *testing.T) {
	dir := t.TempDir()
	set := publishSet(t, dir, "epoxy", map[string]string{"keystone": "one", "nova": "two"})
	index, err := layout.ImageIndexFromPath(LayoutDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("index %v, %v, want two images", manifest, err)
	}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image, validate.Fast); err != nil {
			t.Errorf("%s: %v", d.Digest, err)
		}
		if name := d.Annotations[AnnotationName]; name != set.Images["keystone"].Reference() && name != set.Images["nova"].Reference() {
			t.Errorf("got the name %q, want the reference of one of the images", name)
		}
	}
}

// A new set of one release does not remove the images of another.
func TestGarbageOfSeveralReleases(t *testing.T) {
	dir := t.TempDir()
	epoxy := publishSet(t, dir, "epoxy", map[string]string{"glance": "one"})
	for _, content := range []string{"one", "two", "three"} {
		publishSet(t, dir, "gazpacho", map[string]string{"nova": content})
	}
	if err := Verify(dir, epoxy.Images["glance"]); err != nil {
		t.Error(err)
	}
}

func TestVerifyNamesDamage(t *testing.T) {
	dir := t.TempDir()
	image := publishSet(t, dir, "epoxy", map[string]string{"nova": "n"}).Images["nova"]
	blobs, err := blobsOf(LayoutDir(dir), image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	layer := blobs[len(blobs)-1]
	path := BlobPath(LayoutDir(dir), layer)
	if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	err = Verify(dir, image)
	var damaged *MismatchError
	if !errors.As(err, &damaged) || damaged.Want != layer || damaged.Got == layer {
		t.Fatalf("error %v, want a mismatch of %s", err, layer)
	}
	for _, text := range []string{image.Reference(), layer.String(), damaged.Got.String(), path} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
	if err := os.WriteFile(path, []byte("longer"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Verify(dir, image); err == nil || !strings.Contains(err.Error(), "has 6 bytes, want 1") {
		t.Errorf("error %v, want the sizes", err)
	}
}

// A set that borrows an image follows the release that it is borrowed from.
func TestUpdateBorrowed(t *testing.T) {
	dir := t.TempDir()
	old := publishSet(t, dir, "epoxy", map[string]string{"glance": "one"}).Images["glance"]
	set := publishSet(t, dir, "gazpacho", map[string]string{"nova": "n"})
	set.Images["glance"] = old
	b := &build{recipe: &recipe{release: "gazpacho", borrowed: map[string]string{"glance": "epoxy"}}, config: &Config{Dir: dir}, layout: LayoutDir(dir)}
	same, err := b.updateBorrowed(set, map[string]Image{"glance": old})
	if err != nil || !same.sameImages(set) {
		t.Errorf("with the same borrowed image: got %v, error %v; want the set unchanged", same, err)
	}
	latest := publishSet(t, dir, "epoxy", map[string]string{"glance": "two"}).Images["glance"]
	if _, err := b.updateBorrowed(set, map[string]Image{"glance": latest}); err != nil {
		t.Fatal(err)
	}
	current, err := Current(dir, "gazpacho")
	if err != nil || current.Images["glance"] != latest || current.Images["nova"] != set.Images["nova"] {
		t.Errorf("current %v, %v, want the other release's latest image", current, err)
	}
	if set.Images["glance"] != old {
		t.Error("the previous set was changed")
	}
}

// A set that exists is used without waiting for a build that holds the folder.
func TestBuildReusesWithoutLock(t *testing.T) {
	dir := t.TempDir()
	set := publishSet(t, dir, "epoxy", map[string]string{"nova": "n"})
	rec, err := recipeOf("epoxy")
	if err != nil {
		t.Fatal(err)
	}
	set.Recipe = rec.key
	if err := writeSet(filepath.Join(LayoutDir(dir), "epoxy.json"), set); err != nil {
		t.Fatal(err)
	}
	unlock, err := debian.LockFile(t.Context(), filepath.Join(LayoutDir(dir), lockName), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	c := Config{Dir: dir, Release: "epoxy", Log: slog.New(slog.DiscardHandler)}
	result, err := Build(t.Context(), c)
	if err != nil || !result.Reused || !result.sameImages(set) || len(result.Changes) == 0 {
		t.Fatalf("got %+v, error %v; want the existing set and its differences from the lock file", result, err)
	}
	c.Options = func(string) (Options, error) { return Options{"nova": {"DEFAULT": {Options: []string{"debug"}}}}, nil }
	if result, err = Build(t.Context(), c); err != nil || !slices.Equal(result.OptionChanges, []string{"-nova.DEFAULT.debug"}) {
		t.Errorf("got %+v, error %v; want the option that the packages lack", result, err)
	}
	c.Locked = true
	if _, err := Build(t.Context(), c); err == nil || !strings.Contains(err.Error(), "epoxy.lock") {
		t.Errorf("locked: got error %v, want a refusal", err)
	}
}
