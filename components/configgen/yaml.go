package configgen

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// valuesFile is a YAML file of values with the line of each field.
type valuesFile struct {
	name string
	// of is the name of their layer, which says whose defaults they are.
	of    string
	tree  map[string]any
	lines map[string]int
}

// decimal matches decimal integers only: YAML 1.1 reads 0640 as octal, 1.2 does not.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// parseValues reads a file of values. An empty file has none.
func parseValues(name string, data []byte) (*valuesFile, error) {
	f := &valuesFile{name: name, tree: map[string]any{}, lines: map[string]int{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return f, nil
	}
	r := &valuesReader{file: f}
	v, ok := r.value(doc.Content[0], "")
	if ok {
		if object, isObject := v.(map[string]any); isObject {
			f.tree = object
		} else {
			r.add(doc.Content[0], "", "must be a mapping")
		}
	}
	return f, errors.Join(r.errs...)
}

type valuesReader struct {
	file *valuesFile
	errs []error
}

func (r *valuesReader) add(n *yaml.Node, path, message string) {
	if path != "" {
		message = path + " " + message
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file.name, n.Line, message))
}

func (r *valuesReader) value(n *yaml.Node, path string) (any, bool) {
	r.file.lines[path] = n.Line
	switch n.Kind {
	case yaml.MappingNode:
		object, seen := make(map[string]any, len(n.Content)/2), make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field := strings.TrimPrefix(path+"."+key.Value, ".")
			if seen[key.Value] || key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				r.add(key, field, "is given twice, or is not a plain key")
				continue
			}
			seen[key.Value] = true
			if v, ok := r.value(n.Content[i+1], field); ok {
				object[key.Value] = v
			}
			r.file.lines[field] = key.Line
		}
		return object, true
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			if v, ok := r.value(item, fmt.Sprintf("%s[%d]", path, i)); ok {
				list = append(list, v)
			}
		}
		return list, true
	case yaml.ScalarNode:
		return r.scalar(n, path)
	}
	r.add(n, path, "is an alias; write it out")
	return nil, false
}

func (r *valuesReader) scalar(n *yaml.Node, path string) (any, bool) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if strings.ContainsRune(n.Value, 0) {
			r.add(n, path, "has a NUL character")
			return nil, false
		}
		return n.Value, true
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!int", "!!float":
		var v any
		if n.ShortTag() == "!!int" && !decimal.MatchString(n.Value) {
			r.add(n, path, fmt.Sprintf("is %s, not a plain decimal number; put it in quotes", n.Value))
			return nil, false
		}
		if err := n.Decode(&v); err != nil {
			r.add(n, path, err.Error())
			return nil, false
		}
		v, err := normal(v, path)
		if err != nil {
			r.add(n, "", err.Error())
			return nil, false
		}
		return v, true
	case "!!null":
		r.add(n, path, `is empty; write a value, "" or []`)
		return nil, false
	}
	r.add(n, path, "is of the type "+n.ShortTag()+"; write a string, a number, true or false")
	return nil, false
}
