package openstack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// DefaultPatchesDir returns the folder of the operator's patches for a cluster whose declaration
// names none.
func DefaultPatchesDir(cluster string) string {
	return filepath.Join("/etc/regiond/openstack", cluster)
}

// Clusters returns the objects of a region's OpenStack clusters, in the order of the declaration.
// readPatches reads a folder and returns an error that is fs.ErrNotExist if there is none.
func Clusters(r *region.Region, readPatches func(dir string) ([]region.Patch, error)) ([]*region.OpenStackCluster, error) {
	var all []*region.OpenStackCluster
	var errs []error
	for i, d := range r.Spec.OpenStack.Clusters {
		c := &region.OpenStackCluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: region.GroupVersion.String(), Kind: "OpenStackCluster"},
			ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: map[string]string{LabelManagedBy: ManagedBy}},
		}
		d.DeepCopyInto(&c.Spec.OpenStackDeclaration)
		c.Spec.KeystoneRegion = r.Name // for a new cluster; an existing one keeps its own
		dir, given := d.PatchesDir, true
		if dir == "" {
			dir, given = DefaultPatchesDir(d.Name), false
		}
		patches, err := readPatches(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !given:
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("spec.openstack.clusters[%d].patchesDir: %w; create the folder or remove the field", i, err))
		case err != nil:
			errs = append(errs, fmt.Errorf("patches of OpenStack cluster %s: %w", d.Name, err))
		}
		c.Spec.Patches = patches
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

// maxPatches bounds the operator's patches of a cluster in bytes: together with the declaration
// they are one object, and etcd accepts up to 1.5 MiB.
const maxPatches = 512 << 10

// ReadPatches reads the files *.yaml and *.yml of a folder in the order of their names.
func ReadPatches(dir string) ([]region.Patch, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []region.Patch
	left := int64(maxPatches)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".yaml" && ext != ".yml" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		b, err := readAtMost(name, left)
		if err != nil {
			return nil, err
		}
		if left -= int64(len(b)); left < 0 {
			return nil, fmt.Errorf("%s: the patches of a cluster may not exceed %d bytes in total, and with this file they do", name, maxPatches)
		}
		all = append(all, region.Patch{File: name, Content: string(b)})
	}
	return all, nil
}

// readAtMost reads up to limit+1 bytes of a file, so that the caller can tell that it exceeds the
// limit.
func readAtMost(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
