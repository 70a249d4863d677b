package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Registry is the host name that images are pulled from. It is not in DNS: containerd's
// configuration has its address.
const Registry = "registry.regiond.dev"

// Names below the images folder.
const (
	ociDir         = "oci"
	buildDir       = ".build"
	lockName       = ".lock"
	previousSuffix = ".previous.json"
)

// Set is the set of images of one release of OpenStack.
type Set struct {
	Release string `json:"release"`
	// Debian is the release of Debian whose packages are in them.
	Debian string `json:"debian"`
	// Recipe is the key of the recipe that they were built from.
	Recipe string    `json:"recipe"`
	Built  time.Time `json:"built"`
	// Images by name, e.g. keystone.
	Images map[string]Image `json:"images"`
}

// Image is one image of a set.
type Image struct {
	// Repository in the registry, e.g. openstack/epoxy/keystone.
	Repository string `json:"repository"`
	// Digest of its manifest, e.g. sha256:….
	Digest string `json:"digest"`
	// Version of its main package in Debian, e.g. 2:27.0.0-3.
	Version string `json:"version"`
	// Bytes of all its blobs; images share blobs.
	Bytes int64 `json:"bytes"`
}

// Reference returns the reference that the image is pulled by.
func (i Image) Reference() string { return Registry + "/" + i.Repository + "@" + i.Digest }

// LayoutDir returns the path of the OCI image layout in an images folder.
func LayoutDir(imageDir string) string { return filepath.Join(imageDir, ociDir) }

// Current returns the set that a release's clusters should run. The error is fs.ErrNotExist if
// there is none.
func Current(imageDir, release string) (Set, error) {
	set, err := readSet(filepath.Join(LayoutDir(imageDir), release+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Set{}, fmt.Errorf("there are no images of OpenStack %s in %s; build them with: regiond image build --components --openstack %s: %w",
			release, LayoutDir(imageDir), release, err)
	}
	return set, err
}

// List returns the current sets of all releases, in the order of the recipes. The error names the
// sets that can't be read; the list of the others is valid all the same.
func List(imageDir string) ([]Set, error) {
	var out []Set
	var errs []error
	for _, release := range Releases() {
		set, err := Current(imageDir, release)
		switch {
		case err == nil:
			out = append(out, set)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// Missing returns those of the references of images that are not in an images folder, whoever keeps
// them there.
func Missing(imageDir string, references []string) []string {
	return slices.DeleteFunc(slices.Clone(references), func(reference string) bool {
		_, digest, _ := strings.Cut(reference, "@")
		_, err := blobsOf(LayoutDir(imageDir), digest)
		return err == nil
	})
}

// Kept returns all sets whose images must be kept: the current ones, the one before each, and those
// that clusters hold.
func Kept(imageDir string) ([]Set, error) {
	files, err := filepath.Glob(filepath.Join(LayoutDir(imageDir), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("component images: %w", err)
	}
	var out []Set
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), previousSuffix), ".json")
		if !slices.Contains(Releases(), name) {
			continue
		}
		set, err := readSet(file)
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	holders, err := held(imageDir)
	return append(out, holders...), err
}

func readSet(file string) (Set, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Set{}, fmt.Errorf("component images: %w", err)
	}
	var set Set
	if err := json.Unmarshal(content, &set); err != nil {
		return Set{}, fmt.Errorf("component images: %s: %w; remove it and rebuild the images", file, err)
	}
	return set, nil
}

// Names of the set's images, sorted.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s.Images)) }

// sameImages reports whether both sets have the same images.
func (s Set) sameImages(other Set) bool { return maps.Equal(s.Images, other.Images) }
