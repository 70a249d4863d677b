package configgen

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/machine/configuration"
)

// Names of files in a folder of templates.
const (
	filesName    = "files.yaml"
	servicesName = "services.yaml"
	defaultsName = "values/defaults.yaml"
	secretsName  = "values/secrets.yaml"
)

// Templates is a folder of templates and values.
type Templates struct {
	// Name of their owner, e.g. "openstack" or a bundle. Places in messages begin with it:
	// openstack/values/defaults.yaml:12.
	Name string
	FS   fs.FS
}

// at returns the place of a file for messages.
func (t Templates) at(name string) string { return t.Name + "/" + name }

// Load reads files.yaml, services.yaml, schema.yaml, values/*.yaml and files/** of each folder, and
// reports all of their problems. Every folder owns its files, services and values; if two folders
// have the same one, the error names both places. The first folder defines the releases; templates
// of each folder may print the values of all.
func Load(all ...Templates) (*Source, error) {
	options, err := loadOptions()
	if err != nil {
		return nil, err
	}
	rules, err := loadDynamic()
	if err != nil {
		return nil, err
	}
	l := &loader{
		Source: &Source{releases: map[string][]*valuesFile{}, secrets: secrets.Declared{}, options: options, rules: rules, used: map[string]bool{},
			projects: map[string]bool{}, schema: map[string]*valueType{}, optionUses: map[string]*optionUse{}, set: map[string][][]statement{}},
		leaves: map[string]string{}, inner: map[string]string{}, targets: map[string]string{}, units: map[string]string{},
	}
	var errs []error
	for i, t := range all {
		if t.Name == "" || slices.ContainsFunc(all[:i], func(o Templates) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("templates %q: the name is empty or given twice", t.Name)
		}
		values, err := l.loadValues(t, i == 0)
		errs = append(errs, err, l.loadSchema(t, values, i == 0))
	}
	errs = append(errs, l.loadOwned())
	for _, t := range all {
		errs = append(errs, l.loadFiles(t), l.loadServices(t))
	}
	slices.SortStableFunc(l.files, func(a, b *file) int { return strings.Compare(a.Path, b.Path) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l.Source, nil
}

// loader is a Source that is being loaded, with the places of everything that only one folder may
// have.
type loader struct {
	*Source
	// leaves and inner have the declared values and the mappings around them; targets has the files by
	// role and path.
	leaves, inner, targets, units map[string]string
}

func decodeFile(t Templates, name string, into any) error {
	f, err := t.FS.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", t.at(name), err)
	}
	return nil
}

// loadValues returns the defaults of a folder and those of its releases.
func (l *loader) loadValues(t Templates, first bool) (values []*valuesFile, err error) {
	names, err := fs.Glob(t.FS, "values/*.yaml")
	if err != nil {
		return nil, err
	}
	var errs []error
	claimed := map[string]string{}
	for _, name := range names {
		data, err := fs.ReadFile(t.FS, name)
		if err != nil {
			return nil, err
		}
		f, err := parseValues(t.at(name), data)
		if err != nil {
			errs = append(errs, err) // continue with what could be read
		}
		switch release := strings.TrimSuffix(path.Base(name), ".yaml"); {
		case name == secretsName:
			declared, err := secrets.Declare(f.tree)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
			}
			for _, p := range sortedKeys(declared) {
				l.secrets[p] = declared[p]
				errs = append(errs, l.claim(f, p, claimed))
			}
			continue
		case name == defaultsName:
			f.of = "defaults of " + t.Name
			l.defaults = append(l.defaults, f)
		case !first && l.releases[release] == nil:
			errs = append(errs, fmt.Errorf("%s: release %q is not known; known: %s", f.name, release, strings.Join(l.Releases(), ", ")))
			continue
		default:
			f.of = fmt.Sprintf("defaults of %s for %s", t.Name, release)
			l.releases[release] = append(l.releases[release], f)
		}
		values = append(values, f)
		walk(f.tree, nil, func(p []string, _ any) { errs = append(errs, l.claim(f, joined(p), claimed)) })
	}
	if !slices.Contains(names, defaultsName) {
		errs = append(errs, fmt.Errorf("%s is missing", t.at(defaultsName)))
	}
	for p, place := range claimed {
		l.leaves[p] = place
		for i := range p {
			if p[i] == '.' {
				l.inner[p[:i]] = place
			}
		}
	}
	return values, errors.Join(errs...)
}

// claim records that a folder declares a value, and refuses a value that another folder declares,
// or that is above or below such a value. Within a folder, releases may have different defaults for
// the same value.
func (l *loader) claim(f *valuesFile, p string, claimed map[string]string) error {
	place := fmt.Sprintf("%s:%d", f.name, f.line(p))
	other := l.leaves[p]
	if other == "" {
		other = l.inner[p]
	}
	for i := range p {
		if p[i] == '.' && other == "" {
			other = l.leaves[p[:i]]
		}
	}
	if other != "" {
		return fmt.Errorf("%s: %s is also declared by %s; each value has one owner, so rename this one", place, p, other)
	}
	if claimed[p] == "" {
		claimed[p] = place
	}
	return nil
}

func (l *loader) loadFiles(t Templates) error {
	var list []*file
	errs := []error{decodeFile(t, filesName, &list)}
	for i, f := range list {
		f.templates, f.place, f.order = t, t.at(f.Template), len(l.files)
		l.files = append(l.files, f)
		errs = append(errs, f.check(fmt.Sprintf("%s: item %d (%s)", t.at(filesName), i+1, f.Path), l.targets), l.loadTemplate(f))
	}
	return errors.Join(errs...)
}

var roleName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// check reports the problems of a file's entry; paths has the place of each role and path.
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
			add("role %s already gets this path from %s", role, other)
		}
		paths[key] = at
	}
	one := configuration.Configuration{Files: []configuration.File{{Path: f.Path, Mode: f.Mode, Owner: f.Owner, Group: f.Group}}}
	if err := one.Check(); err != nil {
		add("%w", err)
	}
	return errors.Join(errs...)
}

func (s *Source) loadTemplate(f *file) error {
	data, err := fs.ReadFile(f.templates.FS, path.Join("files", f.Template))
	if err != nil {
		return fmt.Errorf("%s: template of %s: %w", f.templates.at(filesName), f.Path, err)
	}
	statements, err := parseTemplate(f.place, string(data))
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
		if f.rows[role], err = parseRows(f.place, f.statements[role]); err != nil {
			return err // once, not per role
		}
	}
	if f.Options != "" {
		s.noteOptions(f)
	}
	if err := f.checkFormat(statements); s.typed && err != nil {
		return fmt.Errorf("%s: %s %w", f.templates.at(filesName), f.Path, err)
	}
	return nil
}

// loadServices reads the services of a folder, if it has any. They may read files of folders before
// it.
func (l *loader) loadServices(t Templates) error {
	var list []service
	if err := decodeFile(t, servicesName, &list); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	known := map[string]bool{}
	for _, f := range l.filesOf(RoleCompute) {
		known[f.Path] = true
	}
	var errs []error
	for _, service := range list {
		if other, dup := l.units[service.Name]; dup {
			errs = append(errs, fmt.Errorf("%s: %s is already a service of %s", t.at(servicesName), service.Name, other))
		}
		l.units[service.Name] = t.at(servicesName)
		for _, p := range service.Files {
			if !known[p] {
				errs = append(errs, fmt.Errorf("%s: %s reads %s, which role %s does not get", t.at(servicesName), service.Name, p, RoleCompute))
			}
		}
	}
	l.services = append(l.services, list...)
	return errors.Join(errs...)
}
