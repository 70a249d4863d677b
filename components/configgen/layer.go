package configgen

import (
	"fmt"
	"strings"
)

type layerKind int

const (
	softLayer     layerKind = iota // any other layer replaces it
	firmLayer                      // other layers must not disagree
	overrideLayer                  // replaces weaker layers
	secretLayer                    // like firm, and its leaves are secret
)

// layer is a set of values from one source.
type layer struct {
	// name for people, e.g. "values of the cluster".
	name string
	kind layerKind
	// operator: an operator's layer, which is checked for unused values.
	operator bool
	tree     map[string]any
	// where returns the place of a field: a field path with file and line, or another hint.
	where func(path string) string
	// field returns a field's path in the region file. Nil for a layer that is not in the file.
	field func(path string) string
	// written has the options of the tree as written for oslo.config, by key.
	written map[string]any
	// secrets has the leaves of the tree that are an operator's own secrets, by key.
	secrets map[string]bool
}

func (l *layer) place(path []string) string { return l.where(joined(path)) }

func joined(path []string) string { return strings.Join(path, ".") }

func (f *valuesFile) layer() *layer {
	return &layer{name: f.of, kind: softLayer, tree: f.tree, where: func(path string) string {
		return fmt.Sprintf("%s:%d", f.name, f.line(path))
	}}
}

// line returns the line of a field or of its nearest enclosing field.
func (f *valuesFile) line(path string) int {
	for {
		if line, ok := f.lines[path]; ok {
			return line
		}
		cut := max(strings.LastIndexByte(path, '.'), 0)
		if path == "" {
			return 1
		}
		path = path[:cut]
	}
}

// declared returns a function for layer.where for the fields below a field of the declaration.
func (c *Cluster) declared(field string) func(path string) string {
	return func(path string) string { return c.fieldPlace(field + "." + path) }
}

// fieldPlace returns a field with its file and line: spec.openstack.clusters[0].address
// (region.yaml:41).
func (c *Cluster) fieldPlace(field string) string {
	if c.Position != nil {
		if file, line, ok := c.Position(field); ok {
			return fmt.Sprintf("%s (%s:%d)", field, file, line)
		}
	}
	return field
}
