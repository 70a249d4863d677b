package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Options are the configuration options of a release, by project and section.
type Options map[string]map[string]Section

// Section of a project's configuration file.
type Section struct {
	// Options by name, sorted, with underscores.
	Options []string `json:"options"`
	// Deprecated maps names that are still accepted to the current name, as SECTION.OPTION if it is in
	// another section.
	Deprecated map[string]string `json:"deprecated,omitempty"`
	// Types of the options that do not accept arbitrary text: {"type": "integer", "min": 1}. See
	// recipe/options.py.
	Types map[string]json.RawMessage `json:"types,omitempty"`
}

// ReadOptions returns the options that were extracted from a release's images.
func ReadOptions(imageDir, release string) (Options, error) {
	path := filepath.Join(LayoutDir(imageDir), release+optionsSuffix)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("options of OpenStack %s: %w", release, err)
	}
	out, err := ParseOptions(content)
	if err != nil {
		return nil, fmt.Errorf("options of OpenStack %s, %s: %w", release, path, err)
	}
	return out, nil
}

// ParseOptions reads a file of options.
func ParseOptions(content []byte) (Options, error) {
	var out Options
	err := json.Unmarshal(content, &out)
	return out, err
}

// encode returns options as a file with one name or type per line, so that releases can be
// compared.
func (o Options) encode() ([]byte, error) {
	content, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return nil, err
	}
	content = indentedType.ReplaceAllFunc(content, func(object []byte) []byte {
		var line bytes.Buffer
		if json.Compact(&line, object) != nil {
			return object
		}
		return line.Bytes()
	})
	return append(content, '\n'), nil
}

// indentedType matches an indented type, including the type of a list's items.
var indentedType = regexp.MustCompile(`\{\s*"type":(?:[^{}]|\{[^{}]*\})*\}`)

// extractOptions reads the options from the packages of each project.
func (b *build) extractOptions(ctx context.Context) (Options, error) {
	out := Options{}
	for _, project := range slices.Sorted(maps.Keys(b.options)) {
		if from := b.borrowed[project]; from != "" {
			options, err := ReadOptions(b.config.Dir, from)
			if err != nil {
				return nil, err
			}
			out[project] = options[project]
			continue
		}
		b.config.report("", "read the options of %s", project)
		command := append([]string{"python3", "-c", embedded("options.py")}, b.options[project]...)
		text, err := b.query(ctx, b.stack(project), command...)
		if err != nil {
			return nil, fmt.Errorf("options of %s: %w", project, err)
		}
		var sections map[string]Section
		if err := json.Unmarshal([]byte(text), &sections); err != nil {
			return nil, fmt.Errorf("options of %s: %w", project, err)
		}
		out[project] = sections
	}
	return out, nil
}

// diff lists options that only other has (+) and that only o has (-), as +PROJECT.SECTION.OPTION,
// sorted by name.
func (o Options) diff(other Options) []string {
	known, now := o.names(), other.names()
	all := maps.Clone(known)
	maps.Copy(all, now)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case !known[name]:
			out = append(out, "+"+name)
		case !now[name]:
			out = append(out, "-"+name)
		}
	}
	return out
}

// names of all options, current and deprecated.
func (o Options) names() map[string]bool {
	out := map[string]bool{}
	for project, sections := range o {
		for section, s := range sections {
			for _, name := range slices.Concat(s.Options, slices.Collect(maps.Keys(s.Deprecated))) {
				out[project+"."+section+"."+name] = true
			}
		}
	}
	return out
}
