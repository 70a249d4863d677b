package debian

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Lock maps packages to versions.
type Lock map[string]string

// ParseLock reads a lock file: lines name=version; comments and empty lines are ignored.
func ParseLock(text string) (Lock, error) {
	lock := Lock{}
	for i, line := range Lines(text) {
		name, version, ok := strings.Cut(line, "=")
		if !ok || name == "" || version == "" {
			return nil, fmt.Errorf("entry %d, %q: want name=version", i+1, line)
		}
		if _, ok := lock[name]; ok {
			return nil, fmt.Errorf("entry %d: package %s is listed twice", i+1, name)
		}
		lock[name] = version
	}
	return lock, nil
}

// String is the file's content.
func (l Lock) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s=%s\n", name, l[name])
	}
	return b.String()
}

// Change is a package whose version differs from the lock file's. Old is empty if the lock file
// lacks the package, New if the image lacks it.
type Change struct {
	Package string `json:"package"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
}

// String returns the change as in 'systemd 257.12-1 -> 257.13-1'.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Package + " " + c.New + " (new)"
	case c.New == "":
		return c.Package + " " + c.Old + " (gone)"
	}
	return c.Package + " " + c.Old + " -> " + c.New
}

// Diff lists the differences, sorted by package.
func (l Lock) Diff(now Lock) []Change {
	names := maps.Clone(l)
	maps.Copy(names, now)
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if l[name] != now[name] {
			out = append(out, Change{Package: name, Old: l[name], New: now[name]})
		}
	}
	return out
}

// Summary lists the first changes, for an error or for people.
func Summary(changes []Change, most int) []string {
	var lines []string
	for _, change := range changes[:min(most, len(changes))] {
		lines = append(lines, change.String())
	}
	if more := len(changes) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}
