package configgen

import (
	"fmt"
	"strings"
)

type layerKind int

const (
	softLayer     layerKind = iota // anything replaces it
	firmLayer                      // must not be contradicted
	overrideLayer                  // replaces what is weaker
	secretLayer                    // like firm; its leaves are secret
)

// layer is values from one place.
type layer struct {
	// name for people, e.g. "values of the cluster".
	name string
	kind layerKind
	// operator's layers are checked for values that nothing uses.
	operator bool
	tree     map[string]any
	// where says where a field is: a field path with file and line, or what else helps to find it.
	where func(path string) string
	// field is a field's path in the region file. Nil for a layer that is not in it.
	field func(path string) string
	// written are options of the tree as oslo.config reads them, by key.
	written map[string]any
	// secrets are the leaves of the tree that are an operator's own secrets, by key.
	secrets map[string]bool
}

func (l *layer) place(path []string) string { return l.where(joined(path)) }

func joined(path []string) string { return strings.Join(path, ".") }

func (f *valuesFile) layer() *layer {
	return &layer{name: f.of, kind: softLayer, tree: f.tree, where: func(path string) string {
		return fmt.Sprintf("%s:%d", f.name, f.line(path))
	}}
}

// line of a field or of what is nearest around it.
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

// declared is a function for layer.where: fields below a field of the declaration.
func (c *Cluster) declared(field string) func(path string) string {
	return func(path string) string { return c.fieldPlace(field + "." + path) }
}

// fieldPlace is a field with its file and line: spec.openstack.clusters[0].address (region.yaml:41).
func (c *Cluster) fieldPlace(field string) string {
	if c.Position != nil {
		if file, line, ok := c.Position(field); ok {
			return fmt.Sprintf("%s (%s:%d)", field, file, line)
		}
	}
	return field
}
