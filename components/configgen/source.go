package configgen

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"regiond.dev/regiond/components/configgen/secrets"
)

// RoleCompute is the role of nodes; all others are of pods.
const RoleCompute = "compute"

// Source holds parsed folders of templates and values.
type Source struct {
	files    []*file
	services []service
	// defaults and releases have a file of each folder that has one.
	defaults []*valuesFile
	releases map[string][]*valuesFile
	secrets  secrets.Declared
	options  map[string]optionData // by release
	rules    []dynamicRule
	// used are the values that templates look at, projects those with options, both by their path from the root.
	used, projects map[string]bool
	// schema of the values by path.
	schema map[string]*valueType
	// judges reports whether values are checked and written by their types. Templates that a cluster was pinned to before there were
	// schemas have none: what was rendered from them must not change when regiond is replaced.
	judges bool
	// optionUses is what templates print in the lines of options.
	optionUses map[string]*optionUse

	mu sync.Mutex
	// set are templates with options set in them, by role and shape: nodes share them.
	set map[string][][]statement
}

// file of files.yaml with its template.
type file struct {
	Path     string `yaml:"path"`
	Template string `yaml:"template"`
	Options  string `yaml:"options"`
	// Format of a file without options, see formats.
	Format  string   `yaml:"format"`
	Roles   []string `yaml:"roles"`
	Mode    string   `yaml:"mode"`
	Owner   string   `yaml:"owner"`
	Group   string   `yaml:"group"`
	Network bool     `yaml:"network"`

	// templates that the file is of, and its own place among them for messages.
	templates Templates
	place     string
	// order among all files, those of one files.yaml in its order.
	order int
	// statements of the template in each role; rows, too, for files with options.
	statements map[string][]statement
	rows       map[string][]row
}

type service struct {
	Name    string   `yaml:"name"`
	Files   []string `yaml:"files"`
	Reload  bool     `yaml:"reload"`
	Oneshot bool     `yaml:"oneshot"`
}

// Roles that get files, sorted.
func (s *Source) Roles() []string {
	roles := map[string]bool{}
	for _, f := range s.files {
		for _, role := range f.Roles {
			roles[role] = true
		}
	}
	return sortedKeys(roles)
}

// Releases that have values, sorted.
func (s *Source) Releases() []string { return sortedKeys(s.releases) }

// Uses says whether a template looks at a value, by its path, e.g. node.keystone_password.
func (s *Source) Uses(path string) bool { return s.used[path] }

// Secrets that values/secrets.yaml declares.
func (s *Source) Secrets() secrets.Declared { return maps.Clone(s.secrets) }

// placeholders are values for all declared secrets.
func (s *Source) placeholders(value func(path string) string) map[string]any {
	tree := map[string]any{}
	for p, g := range s.secrets {
		var v any = value(p)
		if g.Count > 0 {
			list := make([]any, g.Count)
			for i := range list {
				list[i] = value(fmt.Sprintf("%s[%d]", p, i))
			}
			v = list
		}
		secrets.Put(tree, p, v)
	}
	return tree
}

// filesOf a role, in the order of their paths.
func (s *Source) filesOf(role string) []*file {
	var files []*file
	for _, f := range s.files {
		if slices.Contains(f.Roles, role) {
			files = append(files, f)
		}
	}
	return files
}
