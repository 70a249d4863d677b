package kustomize

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"
)

// Names of the files that Write emits.
const (
	baseName    = "base"
	overlayName = "overlay"
	ownObjects  = "objects.yaml"
)

// Write emits the base and the overlay as folders from which `kustomize build overlay` builds the
// objects of Build and the others: the changes that Build makes after Kustomize are written as
// further patches.
func Write(base fs.FS, o Overlay, others []*unstructured.Unstructured, emit func(name string, content []byte) error) error {
	disk, err := load(base)
	if err != nil {
		return err
	}
	patches, err := parsePatches(o)
	if err != nil {
		return err
	}
	built, err := run(disk, o, patches)
	if err != nil {
		return blame(disk, o, patches, err)
	}
	objects, err := objectsOf(built)
	if err != nil {
		return err
	}
	k, err := o.kustomization(patches)
	if err != nil {
		return err
	}
	k.Resources = append(k.Resources, ownObjects)
	for i, u := range objects {
		p, err := o.finishing(u)
		if err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if p != nil {
			// Apply patches before names get their digests.
			p.Target.Name = regexp.QuoteMeta(built.Resources()[i].OrgId().Name)
			k.Patches = append(k.Patches, *p)
		}
	}
	if err := writeBase(base, emit); err != nil {
		return err
	}
	var documents []string
	for _, u := range others {
		b, err := yaml.Marshal(u.Object)
		if err != nil {
			return err
		}
		documents = append(documents, string(b))
	}
	if err := emit(path.Join(overlayName, ownObjects), []byte(strings.Join(documents, "---\n"))); err != nil {
		return err
	}
	b, err := yaml.Marshal(k)
	if err != nil {
		return err
	}
	return emit(path.Join(overlayName, "kustomization.yaml"), b)
}

func writeBase(base fs.FS, emit func(name string, content []byte) error) error {
	return fs.WalkDir(base, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(base, name)
		if err != nil {
			return err
		}
		return emit(path.Join(baseName, name), b)
	})
}

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// finishing returns a patch with the same effect as finish, nil if there is none.
func (o Overlay) finishing(u *unstructured.Unstructured) (*types.Patch, error) {
	finished := u.DeepCopy()
	if err := o.finish(finished); err != nil {
		return nil, err
	}
	var operations []operation
	before, err := podSpec(u)
	if err != nil || before == nil {
		return nil, err
	}
	after, err := podSpec(finished)
	if err != nil {
		return nil, err
	}
	was := list(before, "volumes")
	for i, v := range list(after, "volumes") {
		for _, source := range []string{"secret", "hostPath"} {
			if !reflect.DeepEqual(v[source], was[i][source]) {
				at := fmt.Sprintf("/%s/volumes/%d/%s", strings.Join(podSpecPath(u.GetKind()), "/"), i, source)
				operations = append(operations, operation{"replace", at, v[source]})
			}
		}
	}
	p := &types.Patch{Target: &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: u.GetKind()}}}}
	if finished.GetName() != u.GetName() {
		operations = append(operations, operation{"replace", "/metadata/name", finished.GetName()})
		p.Options = &types.PatchArgs{AllowNameChange: true}
	}
	if len(operations) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	p.Patch = string(b)
	return p, nil
}
