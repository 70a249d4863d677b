package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"regiond.dev/regiond/region"
)

// walker checks YAML nodes against the schema and makes a tree of plain values of what is right.
type walker struct {
	file     string
	index    positions
	problems Problems
	// formats that did not fit, by path. The rules of Validate explain most of them better, so
	// that they are reported only when no rule had a word to say.
	formats []Problem
}

func (w *walker) add(at position, p Problem) {
	p.File, p.Line, p.Column = w.file, at.line, at.column
	w.problems = append(w.problems, p.spelt())
}

// addFormats reports the wrong formats of which nothing was said yet.
func (w *walker) addFormats() {
	for _, f := range w.formats {
		if !slices.ContainsFunc(w.problems, func(p Problem) bool { return p.Field == f.Field }) {
			w.problems = append(w.problems, f)
		}
	}
}

// header says whether this is a region file at all. Of a file of another kind every field would
// be reported as unknown, which helps nobody.
func (w *walker) header(root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode {
		return true // reported as a wrong type
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		value := root.Content[i+1]
		if root.Content[i].Value != "kind" || value.Kind != yaml.ScalarNode {
			continue
		}
		if value.Value == region.KindRegion || value.Value == "" || closest(value.Value, []string{region.KindRegion}) != "" {
			return true
		}
		w.add(nodePosition(value), Problem{
			Field: "kind", Value: shorten(value.Value),
			Message:    fmt.Sprintf("%s is not a region", quote(value.Value)),
			Suggestion: fmt.Sprintf("a region file has apiVersion %s and kind %s", region.GroupVersion, region.KindRegion),
		})
		return false
	}
	return true
}

// value checks one node and returns it as a plain value. It returns false for nodes that are
// wrong or null: what is around them is then checked as if they were not there.
func (w *walker) value(n *yaml.Node, s *schemaNode, path string) (any, bool) {
	at := nodePosition(n)
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case isNull(n):
		return nil, false
	case s.Free:
		return w.freeform(n, s, path, at)
	case s.Type == "object" && n.Kind == yaml.MappingNode:
		return w.object(n, s, path), true
	case s.Type == "array" && n.Kind == yaml.SequenceNode:
		return w.list(n, s, path, at), true
	case n.Kind == yaml.ScalarNode && s.Type != "object" && s.Type != "array":
		return w.scalar(n, s, path, at)
	}
	w.wrongType(n, s, path, at)
	return nil, false
}

func isNull(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func (w *walker) wrongType(n *yaml.Node, s *schemaNode, path string, at position) {
	is, value := "a mapping", "{…}"
	switch n.Kind {
	case yaml.SequenceNode:
		is, value = "a list", "[…]"
	case yaml.ScalarNode:
		is, value = scalarName(n), shorten(n.Value)
	}
	p := Problem{Field: path, Value: value, Message: fmt.Sprintf("is %s, must be %s", is, typeName(s))}
	if n.Kind == yaml.ScalarNode {
		p.Message = fmt.Sprintf("%s is %s, must be %s", quote(n.Value), is, typeName(s))
	}
	switch {
	case s.Type == "object" && len(s.Properties) > 0:
		p.Suggestion = "its fields are " + strings.Join(s.fields(), ", ")
	case s.Type == "array" && s.Items != nil && s.Items.Type != "object" && n.Kind == yaml.ScalarNode:
		p.Suggestion = fmt.Sprintf("write [%s]", shorten(n.Value))
	case s.Type == "array":
		p.Suggestion = "begin each item with '- '"
	case s.Type == "boolean":
		p.Suggestion = "write true or false, without quotes"
	case s.Type == "integer" && decimal.MatchString(n.Value):
		p.Suggestion = "remove the quotes"
	case s.Type == "string" && n.Kind == yaml.ScalarNode && len(s.Enum) > 0:
		p.Suggestion = choice(n.Value, s.Enum)
	case s.Type == "string" && n.Kind == yaml.ScalarNode:
		p.Suggestion = fmt.Sprintf("put it in quotes: %s", quote(n.Value))
	}
	w.add(at, p)
}

// typeName for people.
func typeName(s *schemaNode) string {
	switch s.Type {
	case "object":
		return "a mapping"
	case "array":
		return "a list"
	case "integer":
		return "an integer"
	case "boolean":
		return "true or false"
	default:
		return "a string"
	}
}

func scalarName(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!int":
		return "an integer"
	case "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	case "!!str", "!!timestamp":
		return "a string"
	default:
		return "of the type " + n.ShortTag()
	}
}

// list checks every item.
func (w *walker) list(n *yaml.Node, s *schemaNode, path string, at position) []any {
	items := n.Content
	if s.MinItems != nil && len(items) < *s.MinItems {
		w.add(at, Problem{Field: path, Message: fmt.Sprintf("has %d items, must have at least %d", len(items), *s.MinItems)})
	}
	if s.MaxItems != nil && len(items) > *s.MaxItems {
		w.add(at, Problem{Field: path, Message: fmt.Sprintf("has %d items, may have at most %d", len(items), *s.MaxItems)})
		items = items[:*s.MaxItems]
	}
	list := make([]any, 0, len(items))
	for i, item := range items {
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		itemAt := nodePosition(item)
		w.index[itemPath] = span{key: itemAt, value: itemAt}
		if isNull(item) {
			w.add(itemAt, Problem{Field: itemPath, Message: "is empty", Suggestion: "remove the item or write " + typeName(s.Items)})
		}
		value, ok := w.value(item, s.Items, itemPath)
		if !ok {
			// Keeps the place, so that the paths of later items stay true.
			value = zero(s.Items)
		}
		list = append(list, value)
	}
	return list
}

func zero(s *schemaNode) any {
	switch s.Type {
	case "object":
		return map[string]any{}
	case "array":
		return []any{}
	case "integer":
		return 0
	case "boolean":
		return false
	default:
		return ""
	}
}

// object checks every field. A misspelled field whose meaning is clear is checked as what it was
// meant to be, so that one slip neither hides the problems below it nor makes others appear.
func (w *walker) object(n *yaml.Node, s *schemaNode, path string) map[string]any {
	object := make(map[string]any, len(n.Content)/2)
	seen := make(map[string]position, len(n.Content)/2)
	present := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		present[n.Content[i].Value] = true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at, name := nodePosition(key), key.Value
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			w.add(at, Problem{Field: path, Value: shorten(name), Message: "has a key that is not a plain string",
				Suggestion: "merge keys (<<) and compound keys are not part of a region; write the fields out"})
			continue
		}
		if first, dup := seen[name]; dup {
			w.add(at, Problem{Field: join(path, name), Value: shorten(name), Message: fmt.Sprintf("is given twice, first on line %d", first.line),
				Suggestion: "remove one of them"})
			continue
		}
		seen[name] = at

		field, known := s.Properties[name]
		if !known && s.AdditionalProperties != nil && s.AdditionalProperties.values != nil {
			field, known = s.AdditionalProperties.values, true
		}
		if !known {
			w.index[join(path, name)] = span{key: at, value: at}
			meant := w.unknownField(s, name, path, at)
			if meant == "" || present[meant] {
				continue
			}
			present[meant] = true
			name, field = meant, s.Properties[meant]
		}
		fieldPath := join(path, name)
		w.index[fieldPath] = span{key: at, value: nodePosition(value)}
		if v, ok := w.value(value, field, fieldPath); ok {
			object[name] = v
		}
		if isNull(value) {
			delete(present, name)
		}
	}
	w.required(n, s, path, present)
	if len(object) == len(seen) { // otherwise something else is wrong with it already
		w.countFields(n, s, path)
	}
	return object
}

func (w *walker) countFields(n *yaml.Node, s *schemaNode, path string) {
	fields := len(n.Content) / 2
	tooFew := s.MinProperties != nil && fields < *s.MinProperties
	tooMany := s.MaxProperties != nil && fields > *s.MaxProperties
	if tooFew || tooMany {
		limits := "exactly one"
		w.add(w.index[path].key, Problem{Field: path, Message: fmt.Sprintf("has %d fields, must have %s", fields, limits),
			Suggestion: "give one of " + strings.Join(s.fields(), ", ")})
	}
}

// unknownField reports a field and returns the name of the one that was meant, if that is clear.
func (w *walker) unknownField(s *schemaNode, name, path string, at position) (meant string) {
	p := Problem{Field: join(path, name), Value: shorten(name), Message: "unknown field"}
	if meant = closest(name, s.fields()); meant != "" {
		p.Suggestion = "did you mean " + quote(meant) + "?"
	} else if elsewhere := placesOf(name); len(elsewhere) == 1 {
		p.Suggestion = "did you mean " + elsewhere[0] + "?"
	} else if fields := s.fields(); len(fields) > 0 {
		p.Suggestion = "the fields here are " + strings.Join(fields, ", ")
	}
	w.add(at, p)
	return meant
}

// placesOf a field's name in the whole schema, for fields that are written a level too high or too
// low.
func placesOf(name string) (paths []string) {
	root, err := loadSchema()
	if err != nil {
		return nil // Load has reported it
	}
	var search func(s *schemaNode, path string)
	search = func(s *schemaNode, path string) {
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			if field == name {
				paths = append(paths, join(path, field))
			}
			search(s.Properties[field], join(path, field))
		}
		if s.Items != nil {
			search(s.Items, path+"[]")
		}
	}
	search(root, "")
	return paths
}

func (w *walker) required(n *yaml.Node, s *schemaNode, path string, present map[string]bool) {
	at := nodePosition(n)
	if s, found := w.index[path]; found {
		at = s.key
	}
	for _, name := range s.Required {
		if present[name] {
			continue
		}
		p := Problem{Field: join(path, name), Message: "required field is missing"}
		if field := s.Properties[name]; field != nil {
			switch {
			case field.Const != "":
				p.Suggestion = fmt.Sprintf("add %s: %s", name, field.Const)
			case field.Description != "":
				p.Suggestion = fmt.Sprintf("add %s: %s", name, strings.TrimSuffix(strings.Join(strings.Fields(field.Description), " "), "."))
			}
		}
		w.add(at, p)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
