package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// blobsOf lists the blobs of an image: manifest, configuration, layers. A blob that is missing, or
// whose size differs from the manifest's, is an error.
func blobsOf(layout, digest string) ([]v1.Hash, error) {
	h, err := hashOf(digest)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(BlobPath(layout, h))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", h, err)
	}
	out := []v1.Hash{h}
	for _, d := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		info, err := os.Stat(BlobPath(layout, d.Digest))
		if err != nil {
			return nil, fmt.Errorf("blob: %w", err)
		}
		if info.Size() != d.Size {
			return nil, fmt.Errorf("blob %s: has %d bytes, want %d", BlobPath(layout, d.Digest), info.Size(), d.Size)
		}
		out = append(out, d.Digest)
	}
	return out, nil
}

// Verify reads all of an image's blobs. The error names the image and, for a damaged blob, the
// digests (MismatchError).
func Verify(imageDir string, image Image) error {
	layout := LayoutDir(imageDir)
	blobs, err := blobsOf(layout, image.Digest)
	for _, blob := range blobs {
		if err == nil {
			err = checkBlob(layout, blob)
		}
	}
	if err != nil {
		return fmt.Errorf("image %s: %w; rebuild it with: regiond image build --components --refresh", image.Reference(), err)
	}
	return nil
}

// collectGarbage removes blobs that no kept set needs, and their entries in the index.
func collectGarbage(imageDir string) error {
	layout := LayoutDir(imageDir)
	sets, err := Kept(imageDir)
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, set := range sets {
		for _, name := range set.Names() {
			blobs, err := blobsOf(layout, set.Images[name].Digest)
			if err != nil {
				continue // unusable; its release will be rebuilt
			}
			for _, blob := range blobs {
				needed[blob.Hex] = true
			}
		}
	}
	// Stop serving a blob before removing it.
	if err := writeIndex(imageDir); err != nil {
		return err
	}
	entries, err := os.ReadDir(blobsDir(layout))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !needed[e.Name()] {
			if err := os.Remove(filepath.Join(blobsDir(layout), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
