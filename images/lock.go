package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PackagesFile in an image's folder lists its Debian packages, name=version, sorted.
const PackagesFile = "packages.lock"

// lockFile maps packages to versions.
type lockFile map[string]string

func parseLock(text string) (lockFile, error) {
	lock := lockFile{}
	for i, line := range parseList(text) {
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
func (l lockFile) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s=%s\n", name, l[name])
	}
	return b.String()
}

// Change is a package whose version differs from the lock file's. Old is empty for one that the lock
// file lacks, New for one that the image lacks.
type Change struct {
	Package string `json:"package"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
}

// String as in 'systemd 257.12-1 -> 257.13-1'.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Package + " " + c.New + " (new)"
	case c.New == "":
		return c.Package + " " + c.Old + " (gone)"
	}
	return c.Package + " " + c.Old + " -> " + c.New
}

// diff lists what differs, sorted by package.
func (l lockFile) diff(now lockFile) []Change {
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
