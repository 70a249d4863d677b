package configgen

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"regiond.dev/regiond/components/configgen/secrets"
)

// RoleCompute is the role of compute hosts; all other roles are roles of pods.
const RoleCompute = "compute"

// Source holds the parsed folders of templates and values.
type Source struct {
	files    []*file
	services []service
	// defaults and releases have one file per folder that has it.
	defaults []*valuesFile
	releases map[string][]*valuesFile
	secrets  secrets.Declared
	options  map[string]optionData // by release
	rules    []dynamicRule
	// used has the values that templates use, projects those with options, both by path from the root.
	used, projects map[string]bool
	// schema has the types of values by path.
	schema map[string]*valueType
	// typed reports whether values are checked and written by their types. Templates that a cluster
	// was pinned to before there were schemas have no types: their output must not change when regiond
	// is upgraded.
	typed bool
	// optionUses has what templates print in option lines.
	optionUses map[string]*optionUse

	mu sync.Mutex
	// set caches templates with options set, by role and shape, for nodes to share.
	set map[string][][]statement
}

// file is an entry of files.yaml with its template.
type file struct {
	Path     string `yaml:"path"`
	Template string `yaml:"template"`
	Options  string `yaml:"options"`
	// Format of a file without options; see formats.
	Format  string   `yaml:"format"`
	Roles   []string `yaml:"roles"`
	Mode    string   `yaml:"mode"`
	Owner   string   `yaml:"owner"`
	Group   string   `yaml:"group"`
	Network bool     `yaml:"network"`

	// templates that the file belongs to, and its place among them for messages.
	templates Templates
	place     string
	// order among all files; files of one files.yaml keep their order.
	order int
	// statements of the template by role; also rows for files with options.
	statements map[string][]statement
	rows       map[string][]row
}

type service struct {
	Name    string   `yaml:"name"`
	Files   []string `yaml:"files"`
	Reload  bool     `yaml:"reload"`
	Oneshot bool     `yaml:"oneshot"`
}

// Roles returns the roles that get files, sorted.
func (s *Source) Roles() []string {
	roles := map[string]bool{}
	for _, f := range s.files {
		for _, role := range f.Roles {
			roles[role] = true
		}
	}
	return sortedKeys(roles)
}

// Releases returns the releases that have values, sorted.
func (s *Source) Releases() []string { return sortedKeys(s.releases) }

// Uses reports whether a template uses a value, by its path, e.g. node.keystone_password.
func (s *Source) Uses(path string) bool { return s.used[path] }

// Secrets returns the secrets that values/secrets.yaml declares.
func (s *Source) Secrets() secrets.Declared { return maps.Clone(s.secrets) }

// placeholders returns placeholders for all declared secrets.
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

// filesOf returns the files of a role, sorted by path.
func (s *Source) filesOf(role string) []*file {
	var files []*file
	for _, f := range s.files {
		if slices.Contains(f.Roles, role) {
			files = append(files, f)
		}
	}
	return files
}
