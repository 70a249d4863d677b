package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is a scratch image of one static program.
type image struct{ name, program string }

// archive is an OCI image layout in a tar file, with entries in the order of addition and without
// times, so that the same images give the same bytes. (go-containerregistry's tarball package
// iterates over a map when it writes several images.)
type archive struct {
	tar     *tar.Writer
	written map[v1.Hash]bool
}

// writeImages writes all images to one archive. containerd imports an image by the name in its
// annotation.
func writeImages(path string, images []image) error {
	return replace(path, func(w io.Writer) error {
		a := archive{tar: tar.NewWriter(w), written: map[v1.Hash]bool{}}
		index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
		for _, i := range images {
			built, err := i.build()
			if err != nil {
				return fmt.Errorf("image %s: %w", i.name, err)
			}
			descriptor, err := a.add(built)
			if err != nil {
				return fmt.Errorf("image %s: %w", i.name, err)
			}
			descriptor.Annotations = map[string]string{"io.containerd.image.name": i.name}
			index.Manifests = append(index.Manifests, descriptor)
		}
		raw, err := json.Marshal(index)
		if err != nil {
			return err
		}
		if err := a.file("index.json", raw); err != nil {
			return err
		}
		if err := a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
			return err
		}
		return a.tar.Close()
	})
}

// add writes an image's blobs and returns its entry for the index.
func (a archive) add(img v1.Image) (v1.Descriptor, error) {
	manifest, err := img.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return v1.Descriptor{}, err
	}
	layers, err := img.Layers()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, layer := range layers {
		r, err := layer.Uncompressed()
		if err != nil {
			return v1.Descriptor{}, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return v1.Descriptor{}, err
		}
		if err := a.blob(content); err != nil {
			return v1.Descriptor{}, err
		}
	}
	if err := a.blob(config); err != nil {
		return v1.Descriptor{}, err
	}
	if err := a.blob(manifest); err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: int64(len(manifest)), Digest: digest}, nil
}

func (a archive) blob(content []byte) error {
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil || a.written[digest] {
		return err
	}
	a.written[digest] = true
	return a.file("blobs/sha256/"+digest.Hex, content)
}

func (a archive) file(name string, content []byte) error {
	// The zero time is the same in every build.
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}

func (i image) build() (v1.Image, error) {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return nil, err
	}
	entry := "/" + filepath.Base(i.program)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: entry[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	// Not compressed: compressing the whole archive is better than layer by layer, and unpacking is
	// faster.
	img, err := mutate.AppendLayers(base, static.NewLayer(b.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config = v1.Config{Entrypoint: []string{entry}, WorkingDir: "/"}
	return mutate.ConfigFile(img, config)
}
