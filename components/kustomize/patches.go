package kustomize

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// patch is one patch from a file of the operator.
type patch struct {
	// where it was written, FILE:LINE.
	where string
	// text of the patch: a strategic merge patch or a list of JSON 6902 operations.
	text string
	// target, nil if the text itself names its object.
	target *types.Selector
	// wanted describes the object that it is for.
	wanted string
	// kind and name as written, which may be regular expressions.
	kind, name string
	// find selects the objects that it applies to.
	find types.Selector
}

// parsePatches parses the operator's files: each has either objects, which are strategic merge
// patches, or patches with a target in the form of a Kustomization's field `patches`.
func parsePatches(o Overlay) ([]patch, error) {
	var all []patch
	var errs []error
	for _, f := range o.Patches {
		patches, err := parseFile(f, o.Namespace)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, patches...)
	}
	return all, errors.Join(errs...)
}

// yamlLine is the YAML library's prefix for the position of an error.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func parseFile(f region.Patch, namespace string) ([]patch, error) {
	var all []patch
	d := yaml.NewDecoder(strings.NewReader(f.Content))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line := "1"
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
				line = m[1]
			}
			return nil, fmt.Errorf("%s:%s: not YAML: %s", f.File, line, yamlLine.ReplaceAllString(err.Error(), ""))
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		patches, err := parseDocument(f.File, doc.Content[0], namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, patches...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: the file has no patch; write one or remove the file", f.File)
	}
	return all, nil
}

func parseDocument(file string, n *yaml.Node, namespace string) ([]patch, error) {
	if list := field(n, "patches"); list != nil && field(n, "kind") == nil {
		n = list
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	} else if field(n, "target") == nil && field(n, "patch") == nil {
		p, err := parseObject(file, n, namespace)
		return []patch{p}, err
	}
	var all []patch
	for _, item := range items {
		p, err := parseTargeted(file, item, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// parseObject reads a strategic merge patch.
func parseObject(file string, n *yaml.Node, namespace string) (patch, error) {
	where := fmt.Sprintf("%s:%d", file, n.Line)
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
		} `yaml:"metadata"`
	}
	if err := n.Decode(&object); err != nil {
		return patch{}, fmt.Errorf("%s: not a patch: %w", where, err)
	}
	if object.APIVersion == "" || object.Kind == "" || object.Metadata.Name == "" {
		return patch{}, fmt.Errorf("%s: not a patch: write an object with apiVersion, kind and metadata.name, or a list of patches, "+
			"each with target and patch", where)
	}
	if ns := object.Metadata.Namespace; ns != "" && ns != namespace {
		return patch{}, fmt.Errorf("%s: namespace %q: the cluster's objects are in %s; leave the namespace out", where, ns, namespace)
	}
	remove(field(n, "metadata"), "namespace") // the base's objects have no namespace yet
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(n); err != nil {
		return patch{}, fmt.Errorf("%s: %w", where, err)
	}
	group, version := resid.ParseGroupVersion(object.APIVersion)
	return patch{where: where, text: text.String(), wanted: object.Kind + " " + object.Metadata.Name, kind: object.Kind, name: object.Metadata.Name,
		find: types.Selector{ResId: resid.ResId{
			Gvk:  resid.Gvk{Group: regexp.QuoteMeta(group), Version: regexp.QuoteMeta(version), Kind: regexp.QuoteMeta(object.Kind)},
			Name: regexp.QuoteMeta(object.Metadata.Name)}}}, nil
}

// parseTargeted reads one entry of a Kustomization's field `patches`.
func parseTargeted(file string, n *yaml.Node, namespace string) (patch, error) {
	where := fmt.Sprintf("%s:%d", file, n.Line)
	if n.Kind != yaml.MappingNode {
		return patch{}, fmt.Errorf("%s: not a patch: an entry of the list has the fields target and patch", where)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Value != "target" && k.Value != "patch" {
			return patch{}, fmt.Errorf("%s:%d: unknown field %q; %s", file, k.Line, k.Value, check.DidYouMean(k.Value, []string{"target", "patch"}, "field"))
		}
	}
	text, target := field(n, "patch"), field(n, "target")
	if text == nil || target == nil {
		return patch{}, fmt.Errorf("%s: the patch needs the fields target (kind, name, …) and patch", where)
	}
	if text.Kind != yaml.ScalarNode {
		return patch{}, fmt.Errorf("%s:%d: patch must be text, as in a kustomization.yaml: write `patch: |-` and indent the lines below it", file, text.Line)
	}
	var s struct {
		Group, Version, Kind, Name, Namespace string
		LabelSelector                         string `yaml:"labelSelector"`
		AnnotationSelector                    string `yaml:"annotationSelector"`
	}
	known := []string{"group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"}
	if target.Kind != yaml.MappingNode {
		return patch{}, fmt.Errorf("%s:%d: target must have the fields kind, name, …", file, target.Line)
	}
	for i := 0; i < len(target.Content); i += 2 {
		if k := target.Content[i]; !slices.Contains(known, k.Value) {
			return patch{}, fmt.Errorf("%s:%d: unknown field target.%s; %s", file, k.Line, k.Value, check.DidYouMean(k.Value, known, "field"))
		}
	}
	if err := target.Decode(&s); err != nil {
		return patch{}, fmt.Errorf("%s: target: %w", where, err)
	}
	if s.Namespace != "" && s.Namespace != namespace {
		return patch{}, fmt.Errorf("%s: target.namespace %q: the cluster's objects are in %s; leave the namespace out", where, s.Namespace, namespace)
	}
	selector := types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Group: s.Group, Version: s.Version, Kind: s.Kind}, Name: s.Name},
		LabelSelector: s.LabelSelector, AnnotationSelector: s.AnnotationSelector}
	if selector == (types.Selector{}) {
		return patch{}, fmt.Errorf("%s: target is empty and would match everything; give kind and name", where)
	}
	var content yaml.Node
	if err := yaml.Unmarshal([]byte(text.Value), &content); err != nil {
		return patch{}, fmt.Errorf("%s:%d: patch is not YAML: %s", file, text.Line, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return patch{where: where, text: text.Value, target: &selector, wanted: describe(selector), kind: s.Kind, name: s.Name, find: selector}, nil
}

func describe(s types.Selector) string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"group ", s.Group}, {"version ", s.Version}, {"", s.Kind}, {"", s.Name},
		{"object with labels ", s.LabelSelector}, {"object with annotations ", s.AnnotationSelector}} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	return strings.Join(parts, " ")
}

// checkTargets refuses patches that match nothing: a patch without effect is a mistake, or an
// upgrade has removed the object that it was written for.
func checkTargets(disk filesys.FileSystem, patches []patch) error {
	base, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, baseDir)
	if err != nil {
		return fmt.Errorf("base of the manifests: %w", err)
	}
	var errs []error
	for _, p := range patches {
		found, err := base.Select(p.find)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: target: %w", p.where, err))
			continue
		}
		if len(found) > 0 {
			continue
		}
		var kinds, names []string
		for _, r := range base.Resources() {
			if kind := r.GetKind(); !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			if r.GetKind() == p.kind || p.kind == "" {
				names = append(names, r.OrgId().Name)
			}
		}
		slices.Sort(kinds)
		slices.Sort(names)
		hint := check.DidYouMean(p.name, slices.Compact(names), "name")
		if p.kind != "" && !slices.Contains(kinds, p.kind) {
			hint = check.DidYouMean(p.kind, kinds, "kind")
		} else if slices.Contains(names, p.name) {
			hint = "an object of that name has another apiVersion or other labels"
		}
		errs = append(errs, fmt.Errorf("%s: the patch matches nothing: there is no %s; %s", p.where, p.wanted, hint))
	}
	return errors.Join(errs...)
}

// field returns a field of a mapping, nil if it is missing.
func field(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func remove(n *yaml.Node, name string) {
	if field(n, name) == nil {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}
