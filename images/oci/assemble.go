package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/atomicfile"
)

// Annotations of manifests in the index.
const (
	// AnnotationName holds the name that an image is pulled by. containerd imports it by that name.
	AnnotationName    = "io.containerd.image.name"
	annotationVersion = "org.opencontainers.image.version"
)

// IndexFile of a layout lists its images.
const IndexFile = "index.json"

const (
	lockSuffix    = ".lock"
	optionsSuffix = ".options.json"
	layoutFile    = "oci-layout"
)

// assemble writes the images' configurations and manifests.
func (b *build) assemble(borrowed map[string]Image) (Set, error) {
	set := Set{Release: b.release, Debian: b.suite, Recipe: b.key, Built: now(), Images: map[string]Image{}}
	for name, image := range borrowed {
		set.Images[name] = image
	}
	for _, i := range b.recipe.built() {
		image, err := b.image(i)
		if err != nil {
			return Set{}, fmt.Errorf("image %s: %w", i.name, err)
		}
		set.Images[i.name] = image
	}
	return set, nil
}

func (b *build) image(i imageRecipe) (Image, error) {
	version := b.layers[i.name].Lock[i.main]
	if version == "" {
		return Image{}, fmt.Errorf("package %s, which gives it its version, is not in it", i.main)
	}
	stack := b.stack(i.name)
	var layers []layer
	for n := len(stack) - 1; n >= 0; n-- {
		layers = append(layers, b.layers[stack[n]].layer())
	}
	id := strconv.Itoa(b.users[i.user])
	config := v1.Config{
		User: id + ":" + id, WorkingDir: "/",
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"},
		Labels: map[string]string{annotationVersion: version},
	}
	digest, size, err := writeImage(b.layout, config, layers)
	if err != nil {
		return Image{}, err
	}
	return Image{Repository: "openstack/" + b.release + "/" + i.name, Digest: digest.String(), Version: version, Bytes: size}, nil
}

// writeImage writes an image's configuration and manifest, and returns the manifest's digest and
// the bytes of all blobs.
func writeImage(layout string, config v1.Config, layers []layer) (v1.Hash, int64, error) {
	file := v1.ConfigFile{
		OS: "linux", Architecture: "amd64", Created: v1.Time{Time: time.Unix(sourceDate, 0).UTC()}, Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	var size int64
	for _, l := range layers {
		file.RootFS.DiffIDs = append(file.RootFS.DiffIDs, l.diffID)
		manifest.Layers = append(manifest.Layers, v1.Descriptor{MediaType: l.media, Size: l.size, Digest: l.digest})
		size += l.size
	}
	var err error
	if manifest.Config, err = writeJSON(layout, types.OCIConfigJSON, file); err != nil {
		return v1.Hash{}, 0, err
	}
	described, err := writeJSON(layout, types.OCIManifestSchema1, manifest)
	if err != nil {
		return v1.Hash{}, 0, err
	}
	return described.Digest, size + manifest.Config.Size + described.Size, nil
}

func writeJSON(layout string, media types.MediaType, value any) (v1.Descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := writeBlob(layout, content)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: media, Size: int64(len(content)), Digest: digest}, nil
}

// publish makes a set the current one. The set's own file comes last, so that whoever finds it
// finds everything else.
func (b *build) publish(set Set, lock debian.Lock, options Options) error {
	content, err := options.encode()
	if err != nil {
		return err
	}
	file := func(suffix string) string { return filepath.Join(b.layout, b.release+suffix) }
	if err := atomicfile.Write(file(optionsSuffix), content, 0o644); err != nil {
		return err
	}
	if err := atomicfile.Write(file(lockSuffix), []byte(lock.String()), 0o644); err != nil {
		return err
	}
	if old, err := Current(b.config.Dir, b.release); err == nil && !old.sameImages(set) {
		if err := writeSet(file(previousSuffix), old); err != nil {
			return err
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Serve the images before announcing the set.
	if err := writeIndex(b.config.Dir, set); err != nil {
		return err
	}
	return writeSet(file(".json"), set)
}

func writeSet(file string, set Set) error {
	content, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(content, '\n'), 0o644)
}

// writeIndex writes the layout's index: the images of all kept sets and of the given sets, which
// are about to be published.
func writeIndex(imageDir string, sets ...Set) error {
	kept, err := Kept(imageDir)
	if err != nil {
		return err
	}
	layout := LayoutDir(imageDir)
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	seen := map[string]bool{}
	for _, set := range append(sets, kept...) {
		for _, name := range set.Names() {
			image := set.Images[name]
			if seen[image.Reference()] {
				continue
			}
			seen[image.Reference()] = true
			digest, err := hashOf(image.Digest)
			if err != nil {
				return err
			}
			info, err := os.Stat(BlobPath(layout, digest))
			if errors.Is(err, fs.ErrNotExist) {
				continue // an incomplete set, which is being rebuilt
			}
			if err != nil {
				return err
			}
			index.Manifests = append(index.Manifests, v1.Descriptor{
				MediaType: types.OCIManifestSchema1, Size: info.Size(), Digest: digest,
				Annotations: map[string]string{AnnotationName: image.Reference(), annotationVersion: image.Version},
			})
		}
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(layout, layoutFile), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(layout, IndexFile), content, 0o644)
}
