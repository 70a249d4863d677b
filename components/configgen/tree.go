package configgen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// node is a node of a merged tree: a mapping, or a leaf that records its origin. Nodes are shared
// between trees and immutable.
type node struct {
	// children of a mapping; nil for a leaf.
	children map[string]*node
	// value of a leaf: string, bool, int64, float64, or a list of those and of mappings.
	value  any
	from   *layer
	secret bool
	// written is the value of an option as written for oslo.config. Nil if the leaf is not an option.
	written any
	// lower are the leaf's values in weaker layers.
	lower *node
}

// content returns what templates print for a leaf.
func (n *node) content() any {
	if n.written != nil {
		return n.written
	}
	return n.value
}

var empty = &node{children: map[string]*node{}}

func (n *node) leaf() bool { return n.children == nil }

// find returns the node at a path, or nil.
func (n *node) find(path []string) *node {
	for _, key := range path {
		if n = n.children[key]; n == nil {
			return nil
		}
	}
	return n
}

// leaves calls f for every leaf in order of path.
func (n *node) leaves(path []string, f func(path []string, leaf *node)) {
	if n.leaf() {
		f(path, n)
		return
	}
	for _, key := range sortedKeys(n.children) {
		n.children[key].leaves(append(path[:len(path):len(path)], key), f)
	}
}

// plain returns the tree without origins; lists are shared.
func (n *node) plain() any {
	if n.leaf() {
		return n.value
	}
	m := make(map[string]any, len(n.children))
	for key, child := range n.children {
		m[key] = child.plain()
	}
	return m
}

// merger merges layers into a tree.
type merger struct {
	layer *layer
	errs  []error
}

// merge merges a layer into a copy of a tree. It reports everything that does not fit.
func merge(base *node, l *layer) (*node, []error) {
	if len(l.tree) == 0 {
		return base, nil
	}
	m := &merger{layer: l}
	return m.object(base, l.tree, nil), m.errs
}

func (m *merger) object(base *node, object map[string]any, path []string) *node {
	out := &node{children: maps.Clone(base.children)}
	for _, key := range sortedKeys(object) {
		if n := m.value(base.children[key], object[key], append(path[:len(path):len(path)], key)); n != nil {
			out.children[key] = n
		}
	}
	return out
}

func (m *merger) value(old *node, value any, path []string) *node {
	object, isObject := value.(map[string]any)
	switch {
	case isObject && old == nil:
		return m.object(empty, object, path)
	case isObject && !old.leaf():
		return m.object(old, object, path)
	case isObject:
		if len(object) > 0 {
			m.add(path, "is a mapping, but %s says %s", old.from.place(path), show(old))
		}
		return old
	case old != nil && !old.leaf():
		if len(old.children) > 0 {
			m.add(path, "is %s, but %s is a mapping", describe(value), old.anyPlace(path))
			return old
		}
		old = nil
	}
	leaf := &node{value: value, written: m.layer.written[key(path)], from: m.layer, secret: m.layer.kind == secretLayer || m.layer.secrets[key(path)], lower: old}
	if old == nil {
		return leaf
	}
	return m.replace(old, leaf, path)
}

// replace decides between two layers that set the same leaf.
func (m *merger) replace(old, leaf *node, path []string) *node {
	switch {
	case old.from.kind == secretLayer:
		m.add(path, "%s is a secret, kept in %s; remove it here", joined(path), old.from.place(path))
		return old
	case m.layer.kind == secretLayer && old.from.kind != softLayer:
		m.errs = append(m.errs, old.from.problem(path, "%s is a secret, kept in %s; remove it here", joined(path), m.layer.place(path)))
		return leaf
	case isList(old.value) != isList(leaf.value) && !isOption(path):
		m.add(path, "is %s, but %s is %s", describe(leaf.value), old.from.place(path), describe(old.value))
		return old
	case old.from.kind == softLayer, m.layer.kind == overrideLayer, m.layer.kind == secretLayer, equal(old.value, leaf.value):
		return leaf
	}
	m.add(path, "says %s, but %s says %s; put one under overrides", show(leaf), old.from.place(path), show(old))
	return old
}

func (m *merger) add(path []string, format string, args ...any) {
	m.errs = append(m.errs, m.layer.problem(path, format, args...))
}

// isOption reports whether a path is PROJECT.conf.SECTION.OPTION, which may be a value or a list.
func isOption(path []string) bool { return len(path) == 4 && path[1] == "conf" }

func isList(v any) bool {
	_, ok := v.([]any)
	return ok
}

// anyPlace returns the place of one of the leaves below n.
func (n *node) anyPlace(path []string) (place string) {
	n.leaves(path, func(p []string, leaf *node) {
		if place == "" {
			place = leaf.from.place(p)
		}
	})
	return place
}

// equal compares values; numbers by their numeric value.
func equal(a, b any) bool {
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	}
	return a == b
}

// describe names the type of a value.
func describe(v any) string {
	switch v.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "true or false"
	}
	return "a number"
}

// show returns a leaf's value for a message. Secrets are not shown.
func show(n *node) string {
	if n.secret {
		return "a secret"
	}
	return showValue(n.value)
}

func showValue(v any) string {
	const longest = 80 // bytes
	s := ""
	switch x := v.(type) {
	case string:
		s = fmt.Sprintf("%q", x)
	case []any:
		items := make([]string, len(x))
		for i, item := range x {
			items[i] = showValue(item)
		}
		s = "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		items := make([]string, 0, len(x))
		for _, key := range sortedKeys(x) {
			items = append(items, key+": "+showValue(x[key]))
		}
		s = "{" + strings.Join(items, ", ") + "}"
	default:
		s, _ = printed(v) // a number or a boolean
	}
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// sortedKeys returns the sorted keys of a mapping.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
