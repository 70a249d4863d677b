package check

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// decimal integers only: YAML 1.1 would read 0623 as octal.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// scalar checks type, choice and bounds.
func (w *walker) scalar(n *yaml.Node, s *schemaNode, path string, at position) (any, bool) {
	tag := n.ShortTag()
	switch s.Type {
	case "integer":
		// YAML calls integers of more than 64 bits floating-point numbers.
		if tag == "!!int" || tag == "!!float" && decimal.MatchString(n.Value) {
			return w.integer(n, s, path, at)
		}
	case "boolean":
		if tag == "!!bool" {
			return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", true
		}
	default:
		// A date that is not in quotes is a string like any other.
		if tag == "!!str" || tag == "!!timestamp" {
			return w.text(n.Value, s, path, at)
		}
	}
	w.wrongType(n, s, path, at)
	return nil, false
}

func (w *walker) integer(n *yaml.Node, s *schemaNode, path string, at position) (any, bool) {
	p := Problem{Field: path, Value: shorten(n.Value)}
	if !decimal.MatchString(n.Value) {
		p.Message, p.Suggestion = quote(n.Value)+" is not a plain decimal number", "write it without leading zeros, base or separators"
		w.add(at, p)
		return nil, false
	}
	low, high := int64(-1<<31), int64(1<<31-1)
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if s.Maximum != nil {
		high = *s.Maximum
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || i < low || i > high {
		p.Message = fmt.Sprintf("%s is out of bounds, must be %d to %d", shorten(n.Value), low, high)
		w.add(at, p)
		return nil, false
	}
	return i, true
}

func (w *walker) text(value string, s *schemaNode, path string, at position) (any, bool) {
	choices := s.Enum
	if s.Const != "" {
		choices = []string{s.Const}
	}
	if len(choices) > 0 && !slices.Contains(choices, value) {
		w.add(at, Problem{Field: path, Value: shorten(value), Message: quote(value) + " is not supported",
			Suggestion: choice(value, choices)})
		return nil, false
	}
	if path == leaseTimePath {
		if p := checkDuration(value); p.Message != "" {
			p.Field = path
			w.add(at, p)
			return nil, false // metav1.Duration refuses to be decoded from it
		}
	}
	if s.Format == "date-time" {
		if _, err := time.Parse(time.RFC3339, value); err != nil {
			w.add(at, Problem{Field: path, Value: shorten(value), Message: quote(value) + " is not a date with time and zone (RFC 3339)",
				Suggestion: "write it as 2030-12-31T18:00:00Z"})
			return nil, false // metav1.Time refuses to be decoded from it
		}
	}
	w.format(value, s, path, at)
	return value, true
}

// format notes a value whose form the API server would refuse.
func (w *walker) format(value string, s *schemaNode, path string, at position) {
	p := Problem{File: w.file, Line: at.line, Column: at.column, Field: path, Value: shorten(value)}
	length := utf8.RuneCountInString(value)
	switch {
	case value == "" && (s.MinLength != nil || s.Pattern != ""):
		p.Message, p.Suggestion = `"" is empty`, "write a value"
	case s.MinLength != nil && length < *s.MinLength:
		p.Message = fmt.Sprintf("%s has %d characters, must have at least %d", quote(value), length, *s.MinLength)
	case s.MaxLength != nil && length > *s.MaxLength:
		p.Message = fmt.Sprintf("%s has %d characters, may have at most %d", quote(value), length, *s.MaxLength)
	case s.Pattern != "" && !matches(s.Pattern, value):
		p.Message = fmt.Sprintf("%s has the wrong form, must match %s", quote(value), s.Pattern)
	default:
		return
	}
	w.formats = append(w.formats, p)
}

// matches says yes for patterns that Go cannot compile; a test compiles them all.
func matches(pattern, value string) bool {
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(value)
}
