package configuration

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Contribution is what one contributor adds to the configuration of a host: OpenStack, or a bundle.
// It owns its files and its units.
type Contribution struct {
	// Contributor's name, e.g. openstack, or that of a bundle.
	Contributor string
	Configuration
}

// ConflictError says that two contributors own the same file or unit of a host.
type ConflictError struct {
	// Kind is "file" or "unit", Name its path or name.
	Kind, Name string
	// Contributors that own it, by name.
	Contributors [2]string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s %s has two owners, %s and %s; each file and unit of a host has one: remove it from one of them",
		e.Kind, e.Name, e.Contributors[0], e.Contributors[1])
}

// Merge makes one configuration of several contributions, whatever order they are given in. What
// one contributor alone gives stays as it is, to the byte of its encoding. Services start in the
// order of each contributor, contributors by name. A service may read files of another contributor,
// and is restarted when they change. The error has a ConflictError for each file and unit with two
// owners.
func Merge(contributions ...Contribution) (Configuration, error) {
	sorted := slices.SortedFunc(slices.Values(contributions), func(a, b Contribution) int { return strings.Compare(a.Contributor, b.Contributor) })
	var merged Configuration
	var errs []error
	owners := map[string]map[string]string{"file": {}, "unit": {}}
	own := func(kind, name, contributor string) {
		switch owner, taken := owners[kind][name]; {
		case !taken:
			owners[kind][name] = contributor
		case owner != contributor:
			errs = append(errs, &ConflictError{kind, name, [2]string{min(owner, contributor), max(owner, contributor)}})
		}
	}
	for i, c := range sorted {
		if c.Contributor == "" || i > 0 && sorted[i-1].Contributor == c.Contributor {
			errs = append(errs, fmt.Errorf("contributor %q: each has a name of its own", c.Contributor))
		}
		merged.Version = max(merged.Version, c.Version)
		merged.Files = append(merged.Files, c.Files...)
		merged.Services = append(merged.Services, c.Services...)
		for _, f := range c.Files {
			own("file", f.Path, c.Contributor)
		}
		for _, unit := range c.units() {
			own("unit", unit, c.Contributor)
		}
	}
	for _, f := range merged.Files { // a file is not a folder of another
		for dir := path.Dir(f.Path); len(dir) > 1; dir = path.Dir(dir) {
			if _, taken := owners["file"][dir]; taken {
				own("file", dir, owners["file"][f.Path])
			}
		}
	}
	slices.SortStableFunc(merged.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if err := errors.Join(errs...); err != nil {
		return Configuration{}, err
	}
	if len(sorted) == 1 {
		return sorted[0].Configuration, nil
	}
	return merged, nil
}

// unitFolder is where unit files and their drop-ins are (systemd.unit(5)).
const unitFolder = "/etc/systemd/system/"

// units that a configuration has a part of, in order: it has a service run, or brings its unit file or a drop-in of that.
func (c Configuration) units() []string {
	var names []string
	for _, s := range c.Services {
		names = append(names, s.Name)
	}
	for _, f := range c.Files {
		if name, ok := strings.CutPrefix(f.Path, unitFolder); ok {
			name, _, _ = strings.Cut(name, "/")
			names = append(names, strings.TrimSuffix(name, ".d"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
