package configgen

import (
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schemaName is the file with the types of values.
const schemaName = "schema.yaml"

// valueType is the type and meaning of a value of the templates.
type valueType struct {
	// Type is boolean, integer, number, string, list, size or address.
	Type    string     `yaml:"type"`
	Choices []any      `yaml:"choices"`
	Min     *float64   `yaml:"min"`
	Max     *float64   `yaml:"max"`
	Items   *valueType `yaml:"items"`
	// Pattern that must match the whole string.
	Pattern string `yaml:"pattern"`
	// Units of a size. With iB or nothing after the letter they are powers of 1,024, with B powers of
	// 1,000.
	Units []string `yaml:"units"`
	Means string   `yaml:"means"`

	pattern *regexp.Regexp
}

// loadSchema reads the types of a folder's values. Each default needs an entry that it fits, and
// each entry a default.
func (l *loader) loadSchema(t Templates, values []*valuesFile, first bool) error {
	var schema map[string]*valueType
	switch err := decodeFile(t, schemaName, &schema); {
	case errors.Is(err, fs.ErrNotExist) && first:
		return nil // see Source.typed
	case err != nil:
		return err
	case first:
		l.typed = true
	}
	var errs []error
	for _, path := range sortedKeys(schema) {
		if err := schema[path].prepare(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", t.at(schemaName), path, err))
		}
	}
	known := map[string]bool{regionValue: first} // its default is a fact of the cluster
	for _, f := range values {
		walk(f.tree, nil, func(path []string, value any) {
			name := joined(path)
			known[name] = true
			switch of := schema[name]; {
			case of == nil:
				errs = append(errs, fmt.Errorf("%s:%d: %s has no entry in %s", f.name, f.line(name), name, schemaName))
			case of.wrong(value) != "":
				errs = append(errs, fmt.Errorf("%s:%d: %s %s", f.name, f.line(name), name, of.wrong(value)))
			}
		})
	}
	for _, path := range sortedKeys(schema) {
		if !known[path] {
			errs = append(errs, fmt.Errorf("%s: %s has no default", t.at(schemaName), path))
		} else if path != regionValue || first {
			l.schema[path] = schema[path]
		}
	}
	return errors.Join(errs...)
}

func (t *valueType) prepare() (err error) {
	if t == nil {
		return errors.New("is empty")
	}
	if !slices.Contains([]string{"boolean", "integer", "number", "string", "list", "size", "address"}, t.Type) {
		return fmt.Errorf("type %q is not known", t.Type)
	}
	if t.Type == "string" && t.Pattern == "" && len(t.Choices) == 0 {
		return errors.New("a string has a pattern or choices")
	}
	if t.pattern, err = regexp.Compile("^(?:" + t.Pattern + ")$"); err != nil {
		return err
	}
	if t.Type == "list" {
		return t.Items.prepare()
	}
	return nil
}

// scalar returns the type in the form of oslo.config's types.
func (t *valueType) scalar() *optionType {
	kind := t.Type
	if kind == "number" {
		kind = "float"
	}
	choices := make([]any, len(t.Choices))
	for i, c := range t.Choices {
		if choices[i] = c; t.Type == "integer" {
			n, _ := c.(int) // YAML's integers
			choices[i] = float64(n)
		}
	}
	return &optionType{Type: kind, Choices: choices, Min: t.Min, Max: t.Max}
}

// takes describes the accepted values.
func (t *valueType) takes() string {
	switch t.Type {
	case "list":
		return "a list, each item " + t.Items.takes()
	case "size":
		least := ""
		if t.Min != nil {
			least = " of at least " + plainNumber(*t.Min)
		}
		return fmt.Sprintf("bytes%s, or a number with one of the units %s, e.g. 512%s", least, strings.Join(t.Units, ", "), t.exampleUnit())
	case "string":
		if len(t.Choices) == 0 {
			return "a text that matches " + t.Pattern
		}
	}
	return t.scalar().takes()
}

func (t *valueType) exampleUnit() string {
	for _, u := range []string{"MB", "M"} {
		if slices.Contains(t.Units, u) {
			return u
		}
	}
	return ""
}

// wrong says what is wrong with a value, "" if it fits.
func (t *valueType) wrong(value any) string {
	items, isList := value.([]any)
	if isList != (t.Type == "list") {
		return fmt.Sprintf("is %s, must be %s", describe(value), t.takes())
	}
	for i, item := range items {
		if wrong := t.Items.wrong(item); wrong != "" {
			return fmt.Sprintf("item %d %s", i+1, wrong)
		}
	}
	if isList {
		return ""
	}
	text, ok := printed(value)
	if ok && t.fits(text) {
		return ""
	}
	return fmt.Sprintf("is %s, must be %s", showValue(value), t.takes())
}

func (t *valueType) fits(text string) bool {
	switch t.Type {
	case "size":
		bytes, ok := t.bytes(text)
		return ok && (t.Min == nil || bytes.Cmp(big.NewFloat(*t.Min)) >= 0)
	case "boolean": // templates test for true; synonyms would be strings
		return text == "true" || text == "false"
	case "integer", "number":
		return text != "" && strings.TrimSpace(text) == text && t.scalar().fits(text)
	case "string":
		return t.pattern.MatchString(text) && t.scalar().fits(text) || t.Pattern == "" && t.scalar().fits(text)
	}
	return t.scalar().fits(text)
}

var sizeForm = regexp.MustCompile(`^([0-9]{1,18})([A-Za-z]*)$`)

// bytes returns a size in bytes.
func (t *valueType) bytes(text string) (*big.Float, bool) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil || m[2] != "" && !slices.Contains(t.Units, m[2]) {
		return nil, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return nil, false
	}
	size := big.NewFloat(n)
	if m[2] == "" {
		return size, true
	}
	step := big.NewFloat(1024)
	if strings.HasSuffix(m[2], "B") && !strings.HasSuffix(m[2], "iB") {
		step = big.NewFloat(1000)
	}
	for range 1 + strings.IndexByte("KMGT", strings.ToUpper(m[2])[0]) {
		size.Mul(size, step)
	}
	return size, true
}

// checkValues finds values of an operator's layer with the wrong type. See unused for values that
// no template uses.
func (s *Source) checkValues(l *layer) (errs []error) {
	walk(l.tree, nil, func(path []string, value any) {
		t := s.schema[joined(path)]
		if t == nil {
			return
		}
		if wrong := t.wrong(value); wrong != "" {
			errs = append(errs, l.problem(path, "%s (%s)", wrong, t.Means))
		}
	})
	return errs
}
