package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"regiond.dev/regiond/images/oci"
)

// index is the content of a layout, read again when its index.json has been replaced.
type index struct {
	layout string

	mu     sync.Mutex
	file   os.FileInfo
	images map[string]*repository
}

// repository is the images that share a name.
type repository struct {
	manifests map[v1.Hash]bool
	// media are the media types of all blobs, manifests included.
	media map[v1.Hash]string
}

// read returns the repositories by name. A layout that does not exist yet has none.
func (x *index) read() (map[string]*repository, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	path := filepath.Join(x.layout, oci.IndexFile)
	file, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("index of images: %w", err)
	}
	// The index is replaced, never modified in place.
	if x.file != nil && os.SameFile(file, x.file) && file.ModTime().Equal(x.file.ModTime()) {
		return x.images, nil
	}
	images, err := parse(x.layout)
	if err != nil {
		return nil, fmt.Errorf("index of images, %s: %w", path, err)
	}
	x.file, x.images = file, images
	return images, nil
}

func parse(layout string) (map[string]*repository, error) {
	content, err := os.ReadFile(filepath.Join(layout, oci.IndexFile))
	if err != nil {
		return nil, err
	}
	var list v1.IndexManifest
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	images := map[string]*repository{}
	for _, d := range list.Manifests {
		name, ok := strings.CutPrefix(d.Annotations[oci.AnnotationName], oci.Registry+"/")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "@")
		if images[name] == nil {
			images[name] = &repository{manifests: map[v1.Hash]bool{}, media: map[v1.Hash]string{}}
		}
		if err := images[name].add(layout, d); err != nil {
			return nil, fmt.Errorf("image %s: %w", d.Annotations[oci.AnnotationName], err)
		}
	}
	return images, nil
}

// add reads a manifest. A damaged one is served all the same: the client that pulls it detects the
// damage and names it.
func (r *repository) add(layout string, d v1.Descriptor) error {
	r.manifests[d.Digest], r.media[d.Digest] = true, string(d.MediaType)
	content, err := os.ReadFile(oci.BlobPath(layout, d.Digest))
	if err != nil {
		return err
	}
	var manifest v1.Manifest
	if json.Unmarshal(content, &manifest) != nil {
		return nil
	}
	for _, part := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		r.media[part.Digest] = string(part.MediaType)
	}
	return nil
}
