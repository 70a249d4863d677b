// Package ocitest creates small component images for tests, with go-containerregistry's writer of
// image layouts.
package ocitest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"regiond.dev/regiond/images/oci"
)

// Publish writes a set into an images folder and makes it the current one. contents are the layers
// of its images, tar files by name.
func Publish(t testing.TB, imageDir, release string, contents map[string][]byte) oci.Set {
	t.Helper()
	set := oci.Set{Release: release, Images: map[string]oci.Image{}}
	path := layout.Path(oci.LayoutDir(imageDir))
	if _, err := path.ImageIndex(); err != nil {
		if path, err = layout.Write(oci.LayoutDir(imageDir), empty.Index); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range contents {
		image := Image(t, content)
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		set.Images[name] = oci.Image{Repository: "openstack/" + release + "/" + name, Digest: digest.String(), Version: "1"}
		annotations := map[string]string{oci.AnnotationName: set.Images[name].Reference()}
		if err := path.AppendImage(image, layout.WithAnnotations(annotations)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(oci.LayoutDir(imageDir), release+".json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return set
}

// Layer is one with a file that may be run, for Publish and Image.
func Layer(t testing.TB, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Image returns an image of one layer.
func Image(t testing.TB, content []byte) v1.Image {
	t.Helper()
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// Damage flips a bit of an image's layer and returns the layer's digest.
func Damage(t testing.TB, imageDir string, image oci.Image) v1.Hash {
	t.Helper()
	digest, err := v1.NewHash(image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(oci.BlobPath(oci.LayoutDir(imageDir), digest))
	if err != nil {
		t.Fatal(err)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	layer := manifest.Layers[0].Digest
	path := oci.BlobPath(oci.LayoutDir(imageDir), layer)
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return layer
}
