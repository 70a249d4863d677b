package configgen

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/machine/configuration"
)

// RoleCompute is the role of nodes; all others are of pods.
const RoleCompute = "compute"

// Source is a folder of templates and values, parsed.
type Source struct {
	files    []*file
	services []service
	defaults *valuesFile
	releases map[string]*valuesFile
	secrets  secrets.Declared
	options  map[string]optionData // by release
	rules    []dynamicRule
	// used are the values that templates look at, projects those with options, both by their path from the root.
	used, projects map[string]bool
	// schema of the values by path.
	schema map[string]*valueType
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

	// order in files.yaml.
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

const (
	filesName    = "files.yaml"
	servicesName = "services.yaml"
	defaultsName = "values/defaults.yaml"
	secretsName  = "values/secrets.yaml"
)

// Load reads files.yaml, services.yaml, schema.yaml, values/*.yaml and files/**, and says all that is wrong with them.
func Load(fsys fs.FS) (*Source, error) {
	options, err := loadOptions()
	if err != nil {
		return nil, err
	}
	rules, err := loadDynamic()
	if err != nil {
		return nil, err
	}
	s := &Source{releases: map[string]*valuesFile{}, secrets: secrets.Declared{}, options: options, rules: rules, used: map[string]bool{},
		projects: map[string]bool{}, optionUses: map[string]*optionUse{}, set: map[string][][]statement{}}
	errs := []error{s.loadValues(fsys), s.loadSchema(fsys), s.loadOwned(), decodeFile(fsys, filesName, &s.files), decodeFile(fsys, servicesName, &s.services)}
	paths := map[string]string{}
	for i, f := range s.files {
		f.order = i
		errs = append(errs, f.check(fmt.Sprintf("%s: item %d (%s)", filesName, i+1, f.Path), paths), s.loadTemplate(fsys, f))
	}
	slices.SortStableFunc(s.files, func(a, b *file) int { return strings.Compare(a.Path, b.Path) })
	errs = append(errs, s.checkServices())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func decodeFile(fsys fs.FS, name string, into any) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *Source) loadValues(fsys fs.FS) error {
	names, err := fs.Glob(fsys, "values/*.yaml")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		f, err := parseValues(name, data)
		if err != nil {
			errs = append(errs, err) // and with what could be read of it
		}
		switch name {
		case defaultsName:
			s.defaults = f
		case secretsName:
			if s.secrets, err = secrets.Declare(f.tree); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		default:
			s.releases[strings.TrimSuffix(path.Base(name), ".yaml")] = f
		}
	}
	if s.defaults == nil {
		errs = append(errs, fmt.Errorf("%s is missing", defaultsName))
	}
	return errors.Join(errs...)
}

var roleName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// check reports what is wrong with a file's entry; paths has the place of each role and path.
func (f *file) check(at string, paths map[string]string) error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(at+": "+format, args...))
	}
	if len(f.Roles) == 0 {
		add("has no roles")
	}
	for _, role := range f.Roles {
		if !roleName.MatchString(role) {
			add("role %q is not a name", role)
		}
		key := role + " " + f.Path
		if other, dup := paths[key]; dup {
			add("role %s gets this path from %s already", role, other)
		}
		paths[key] = at
	}
	one := configuration.Configuration{Files: []configuration.File{{Path: f.Path, Mode: f.Mode, Owner: f.Owner, Group: f.Group}}}
	if err := one.Check(); err != nil {
		add("%w", err)
	}
	return errors.Join(errs...)
}

func (s *Source) loadTemplate(fsys fs.FS, f *file) error {
	data, err := fs.ReadFile(fsys, path.Join("files", f.Template))
	if err != nil {
		return fmt.Errorf("%s: template of %s: %w", filesName, f.Path, err)
	}
	statements, err := parseTemplate(f.Template, string(data))
	if err != nil {
		return err
	}
	refs(statements, func(r ref, _ int) { s.used[strings.Join(r.path, ".")] = true })
	f.statements, f.rows = map[string][]statement{}, map[string][]row{}
	for _, role := range f.Roles {
		f.statements[role] = inRole(statements, role)
		if f.Options == "" {
			continue
		}
		s.projects[f.Options] = true
		if f.rows[role], err = parseRows(f.Template, f.statements[role]); err != nil {
			return err // once, not for each role
		}
	}
	if f.Options != "" {
		s.noteOptions(f)
	}
	if err := f.checkFormat(statements); s.judges() && err != nil {
		return fmt.Errorf("%s: %s %w", filesName, f.Path, err)
	}
	return nil
}

func (s *Source) checkServices() error {
	known := map[string]bool{}
	for _, f := range s.files {
		if slices.Contains(f.Roles, RoleCompute) {
			known[f.Path] = true
		}
	}
	var errs []error
	for _, service := range s.services {
		for _, p := range service.Files {
			if !known[p] {
				errs = append(errs, fmt.Errorf("%s: %s reads %s, which role %s does not get", servicesName, service.Name, p, RoleCompute))
			}
		}
	}
	return errors.Join(errs...)
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
