package check

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// freeform reads an object whose fields are the operator's own, and notes where each of them is
// written. Its keys are plain strings and its values JSON's: what YAML has beyond that could not be
// stored.
func (w *walker) freeform(n *yaml.Node, s *schemaNode, path string, at position) (any, bool) {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, s, path, at)
		return nil, false
	}
	return w.freeValue(n, path)
}

func (w *walker) freeValue(n *yaml.Node, path string) (any, bool) {
	at := nodePosition(n)
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			field := join(path, key.Value)
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				w.add(nodePosition(key), Problem{Field: path, Message: "has a key that is not a plain string",
					Suggestion: "merge keys (<<) and compound keys are not part of a region; write the fields out"})
				continue
			}
			if _, dup := object[key.Value]; dup {
				w.add(nodePosition(key), Problem{Field: field, Message: "is given twice", Suggestion: "remove one of them"})
				continue
			}
			w.index[field] = span{key: nodePosition(key), value: nodePosition(value)}
			if v, ok := w.freeValue(value, field); ok {
				object[key.Value] = v
			}
		}
		return object, true
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			field := fmt.Sprintf("%s[%d]", path, i)
			w.index[field] = span{key: nodePosition(item), value: nodePosition(item)}
			v, ok := w.freeValue(item, field)
			if !ok {
				w.add(nodePosition(item), Problem{Field: field, Message: "is empty", Suggestion: "remove the item"})
				continue
			}
			list = append(list, v)
		}
		return list, true
	}
	return w.freeScalar(n, path, at)
}

func (w *walker) freeScalar(n *yaml.Node, path string, at position) (any, bool) {
	var v any
	switch n.ShortTag() {
	case "!!null":
		return nil, false
	case "!!str", "!!timestamp":
		return n.Value, true
	case "!!int", "!!float":
		if n.ShortTag() == "!!int" && !decimal.MatchString(n.Value) {
			w.add(at, Problem{Field: path, Value: shorten(n.Value), Message: quote(n.Value) + " is not a plain decimal number",
				Suggestion: "put it in quotes, or write it without leading zeros, base or separators"})
			return nil, false
		}
		if err := n.Decode(&v); err != nil {
			w.add(at, Problem{Field: path, Value: shorten(n.Value), Message: err.Error()})
			return nil, false
		}
		if f, ok := v.(float64); ok && (f != f || f > 1e300 || f < -1e300) { // JSON has no NaN and no infinity
			w.add(at, Problem{Field: path, Value: shorten(n.Value), Message: quote(n.Value) + " is not a number in JSON", Suggestion: "put it in quotes"})
			return nil, false
		}
		return v, true
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", true
	}
	w.add(at, Problem{Field: path, Value: shorten(n.Value), Message: "is of the type " + n.ShortTag() + ", which JSON does not have",
		Suggestion: "write a string, a number, true or false"})
	return nil, false
}

// ProblemAt is a problem of a field, at its place or at that of the nearest field around it.
func (d *Document) ProblemAt(field, message string) Problem {
	at := d.index.at(field)
	return Problem{File: d.Name, Line: at.line, Column: at.column, Field: field, Message: message}
}

// Position says where a field is written: file and line. ok is false for a field that the file does
// not have.
func (d *Document) Position(path string) (file string, line int, ok bool) {
	if !d.index.written(path) {
		return d.Name, 0, false
	}
	return d.Name, d.index.at(path).line, true
}
