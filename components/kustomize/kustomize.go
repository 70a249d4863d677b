// Package kustomize builds the Kubernetes objects of an OpenStack cluster with Kustomize from a
// base that all clusters share and one overlay per cluster. The operator's own patches come last in
// the overlay, so that they survive upgrades of the base.
package kustomize

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
)

//go:embed all:base
var files embed.FS

// Base returns the folder with the base's kustomization.yaml.
func Base() (fs.FS, error) { return fs.Sub(files, "base") }

// Overlay is what one OpenStack cluster adds to the base.
type Overlay struct {
	// Namespace of all objects.
	Namespace string
	// Labels of all objects and pods.
	Labels map[string]string
	// Images, repository@digest, by their names in the base.
	Images map[string]string
	// Configs by the names of their Secrets in the base.
	Configs map[string]Config
	// DataDir is the folder on the seed host that replaces /DATA-DIR in the base.
	DataDir string
	// Patches are the operator's own.
	Patches []region.Patch
}

// Config is a Secret with configuration files.
type Config struct {
	// Secret is its name in the cluster.
	Secret string
	Files  []ConfigFile
}

// ConfigFile is one file of a Secret, under the key that Key gives.
type ConfigFile struct {
	// Path in the pod, absolute.
	Path       string
	Executable bool
}

// Key returns the key of a file in its Secret. Keys have no slashes: /etc/nova/nova.conf is
// etc.nova.nova.conf.
func Key(file string) string { return strings.ReplaceAll(strings.Trim(file, "/"), "/", ".") }

// Paths of base and overlay in Kustomize's file system.
const (
	baseDir    = "/base"
	overlayDir = "/overlay"
)

// Build builds the objects of base and overlay. They are sorted by kind and name; Kustomize does
// not know the order in which they are applied.
func Build(base fs.FS, o Overlay) ([]*unstructured.Unstructured, error) {
	disk, err := load(base)
	if err != nil {
		return nil, err
	}
	patches, err := parsePatches(o)
	if err != nil {
		return nil, err
	}
	if len(patches) > 0 {
		if err := checkTargets(disk, patches); err != nil {
			return nil, err
		}
	}
	built, err := run(disk, o, patches)
	if err != nil {
		return nil, blame(disk, o, patches, err)
	}
	objects, err := objectsOf(built)
	if err != nil {
		return nil, err
	}
	for _, u := range objects {
		if err := o.finish(u); err != nil {
			return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+"/"+a.GetName(), b.GetKind()+"/"+b.GetName())
	})
	return objects, nil
}

func objectsOf(built resmap.ResMap) (objects []*unstructured.Unstructured, err error) {
	for _, r := range built.Resources() {
		m, err := r.Map()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		u, err := object(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		objects = append(objects, u)
	}
	return objects, nil
}

// CheckPatches returns the errors that Build would return for the operator's patches. It needs no
// images.
func CheckPatches(base fs.FS, o Overlay) error {
	disk, err := load(base)
	if err != nil {
		return err
	}
	patches, err := parsePatches(o)
	if err != nil || len(patches) == 0 {
		return err
	}
	if err := checkTargets(disk, patches); err != nil {
		return err
	}
	if _, err := run(disk, o, patches); err != nil {
		return blame(disk, o, patches, err)
	}
	return nil
}

// object converts a map through JSON, because unstructured objects hold int64 where YAML has int.
func object(m map[string]any) (*unstructured.Unstructured, error) {
	b, err := yaml.Marshal(m)
	if err != nil {
		return nil, err
	}
	if b, err = yaml.YAMLToJSON(b); err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(b)
}

func load(base fs.FS) (filesys.FileSystem, error) {
	disk := filesys.MakeFsInMemory()
	err := fs.WalkDir(base, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(base, name)
		if err != nil {
			return err
		}
		return disk.WriteFile(path.Join(baseDir, name), b)
	})
	if err != nil {
		return nil, fmt.Errorf("base of the manifests: %w", err)
	}
	return disk, nil
}

func run(disk filesys.FileSystem, o Overlay, patches []patch) (resmap.ResMap, error) {
	k, err := o.kustomization(patches)
	if err != nil {
		return nil, err
	}
	b, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := disk.WriteFile(path.Join(overlayDir, "kustomization.yaml"), b); err != nil {
		return nil, err
	}
	return krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, overlayDir)
}

// kustomization returns the kustomization of the overlay.
func (o Overlay) kustomization(patches []patch) (types.Kustomization, error) {
	k := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{"../" + path.Base(baseDir)},
		Namespace: o.Namespace,
		Labels:    []types.Label{{Pairs: o.Labels, IncludeTemplates: true}},
	}
	for _, name := range slices.Sorted(maps.Keys(o.Images)) {
		repository, digest, ok := strings.Cut(o.Images[name], "@")
		if !ok {
			return k, fmt.Errorf("image %s: %q is not pinned by a digest", name, o.Images[name])
		}
		k.Images = append(k.Images, types.Image{Name: name, NewName: repository, Digest: digest})
	}
	for _, p := range patches {
		k.Patches = append(k.Patches, types.Patch{Patch: p.text, Target: p.target})
	}
	return k, nil
}

// blame names the operator's file that makes the build fail: the first one without which it
// succeeds.
func blame(disk filesys.FileSystem, o Overlay, patches []patch, failed error) error {
	if _, err := run(disk, o, nil); err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	for i, p := range patches {
		if _, err := run(disk, o, patches[:i+1]); err != nil {
			return fmt.Errorf("%s: the patch does not fit %s: %s", p.where, p.wanted, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	return errors.Join(errors.New("manifests"), failed)
}
