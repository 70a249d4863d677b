package configgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// printed returns a value as it is written into a file for every target: true and false in lower
// case, numbers as in Python. ok is false for lists and mappings, which can't be printed.
func printed(v any) (s string, ok bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case bool:
		return strconv.FormatBool(x), true
	case int64:
		return strconv.FormatInt(x, 10), true
	case float64:
		return printFloat(x), true
	}
	return "", false
}

// printFloat is Python's repr: plain digits up to a limit, then an exponent of two or more digits.
func printFloat(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// truth reports whether a value is true in a condition, as in both Go and Jinja2.
func truth(v any) bool {
	switch x := v.(type) {
	case string:
		return x != ""
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case []any:
		return len(x) > 0
	}
	return true
}

// number converts a whole number to int64, so that 16 and 16.0 are the same value: JSON does not
// distinguish them.
func number(f float64) any {
	const exact = 1 << 53 // limit of integers that a float64 represents exactly
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return int64(f)
	}
	return f
}

// decodeObject reads a JSON object into a tree of string, bool, int64, float64, []any and
// map[string]any.
func decodeObject(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON object")
	}
	tree, err := normal(object, "")
	if err != nil {
		return nil, err
	}
	out, _ := tree.(map[string]any) // nil for "null"
	return out, nil
}

// normal converts values from JSON and Go programs to the types of a tree. Nulls are removed from
// mappings.
func normal(v any, path string) (any, error) {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for key, item := range x {
			if item == nil {
				continue
			}
			n, err := normal(item, strings.TrimPrefix(path+"."+key, "."))
			if err != nil {
				return nil, err
			}
			out[key] = n
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			n, err := normal(item, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			out[i] = n
		}
		return out, nil
	case []string:
		out := make([]any, len(x))
		for i, item := range x {
			out[i] = item
		}
		return out, nil
	case string:
		if strings.ContainsRune(x, 0) {
			return nil, fmt.Errorf("%s: has a NUL character", path)
		}
		return x, nil
	case bool, int64:
		return x, nil
	case int:
		return int64(x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s: %v is not a number in JSON", path, x)
		}
		return number(x), nil
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i, nil
		}
		f, err := x.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return number(f), nil
	}
	return nil, fmt.Errorf("%s: a %T is not a value", path, v)
}
