package oci

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"regiond.dev/regiond/images/debian"
)

// revision of the Go code's own contribution to images, beyond the embedded files. It is part of
// the key: raise it when the code builds different images.
const revision = "1"

// Layers that others build on.
const (
	layerBase   = "base"
	layerCommon = "common"
)

//go:embed recipe
var recipeFiles embed.FS

// recipe is what a release's images are built from.
type recipe struct {
	release string // of OpenStack
	suite   string // release of Debian
	// expired package lists are accepted.
	expired bool
	// borrowed maps images to the release that they are borrowed from.
	borrowed map[string]string
	images   []imageRecipe
	users    map[string]int
	packages map[string][]string // of each layer
	exclude  []string            // dpkg path-exclude patterns
	drop     []string            // patterns of files that are left out of images
	options  map[string][]string // patterns of namespaces of each project
	lock     debian.Lock         // versions that were tested
	key      string
}

// imageRecipe is a line of recipe/images.
type imageRecipe struct {
	name, below, user, main string
}

// Releases returns the releases of OpenStack that have recipes. The first is the default.
func Releases() []string {
	var out []string
	for _, line := range debian.Lines(embedded("releases")) {
		name, _, _ := strings.Cut(line, " ")
		out = append(out, name)
	}
	return out
}

// ImageNames returns the names of a release's images.
func ImageNames(release string) ([]string, error) {
	r, err := recipeOf(release)
	if err != nil {
		return nil, err
	}
	return r.names(), nil
}

// Debian returns the release of Debian that a release of OpenStack is built from, "" for an unknown
// one.
func Debian(release string) string {
	r, err := recipeOf(release)
	if err != nil {
		return ""
	}
	return r.suite
}

// embedded returns a file of the recipe; a missing file is returned as empty, which parsing
// refuses.
func embedded(name string) string {
	content, err := recipeFiles.ReadFile("recipe/" + name)
	if err != nil {
		return ""
	}
	return string(content)
}

func recipeOf(release string) (*recipe, error) {
	r := &recipe{release: release, packages: map[string][]string{}}
	if err := r.parse(embedded); err != nil {
		return nil, fmt.Errorf("recipe of component images: %w", err)
	}
	return r, nil
}

// parse reads the recipe's files.
func (r *recipe) parse(file func(name string) string) error {
	if err := r.parseRelease(file("releases")); err != nil {
		return err
	}
	var err error
	if r.users, err = parseUsers(file("users")); err != nil {
		return err
	}
	if r.images, err = parseImages(file("images"), r.users); err != nil {
		return err
	}
	for _, layer := range append([]string{layerBase, layerCommon}, r.names()...) {
		if r.packages[layer] = debian.Lines(file("packages/" + layer)); len(r.packages[layer]) == 0 {
			return fmt.Errorf("packages/%s: no packages", layer)
		}
	}
	r.exclude, r.drop = debian.Lines(file("exclude")), debian.Lines(file("drop"))
	for _, pattern := range r.drop {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("drop: pattern %q: %w", pattern, err)
		}
	}
	r.options = map[string][]string{}
	for _, line := range debian.Lines(file("options")) {
		fields := strings.Fields(line)
		if !slices.Contains(r.names(), fields[0]) || len(fields) < 2 {
			return fmt.Errorf("options: line %q: want the name of an image and patterns of namespaces", line)
		}
		r.options[fields[0]] = fields[1:]
	}
	if r.lock, err = debian.ParseLock(file(r.release + ".lock")); err != nil {
		return fmt.Errorf("%s.lock: %w", r.release, err)
	}
	r.key = r.hash(file)
	return nil
}

func (r *recipe) parseRelease(text string) error {
	var known []string
	for _, line := range debian.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return fmt.Errorf("releases: line %q: want a release of OpenStack and one of Debian", line)
		}
		known = append(known, fields[0])
		if fields[0] != r.release {
			continue
		}
		r.suite, r.borrowed = fields[1], map[string]string{}
		for _, f := range fields[2:] {
			if f == "expired" {
				r.expired = true
				continue
			}
			name, from, ok := strings.Cut(f, "=")
			if !ok || from == r.release {
				return fmt.Errorf("releases: line %q: %q: want expired, or IMAGE=RELEASE of another release", line, f)
			}
			r.borrowed[name] = from
		}
	}
	if r.suite == "" {
		return fmt.Errorf("release %q is not known; known: %s", r.release, strings.Join(known, ", "))
	}
	return nil
}

func parseUsers(text string) (map[string]int, error) {
	users := map[string]int{}
	for _, line := range debian.Lines(text) {
		name, number, _ := strings.Cut(line, " ")
		id, err := strconv.Atoi(number)
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("users: line %q: want a name and a number above 0", line)
		}
		users[name] = id
	}
	return users, nil
}

func parseImages(text string, users map[string]int) ([]imageRecipe, error) {
	var out []imageRecipe
	for _, line := range debian.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			return nil, fmt.Errorf("images: line %q: want name, layer below, user and main package", line)
		}
		i := imageRecipe{name: fields[0], below: fields[1], user: fields[2], main: fields[3]}
		if i.below != layerBase && i.below != layerCommon {
			return nil, fmt.Errorf("images: line %q: layer below is %q; there are %s and %s", line, i.below, layerBase, layerCommon)
		}
		if users[i.user] == 0 {
			return nil, fmt.Errorf("images: line %q: user %q is not in the list of users", line, i.user)
		}
		out = append(out, i)
	}
	return out, nil
}

// names returns the names of all images.
func (r *recipe) names() []string {
	var out []string
	for _, i := range r.images {
		out = append(out, i.name)
	}
	return out
}

// built returns the images that are not borrowed from another release.
func (r *recipe) built() []imageRecipe {
	return slices.DeleteFunc(slices.Clone(r.images), func(i imageRecipe) bool { return r.borrowed[i.name] != "" })
}

// hash covers everything that determines what is built, except for versions of packages.
func (r *recipe) hash(file func(string) string) string {
	k := debian.NewKey(revision, r.release, r.suite)
	for _, name := range []string{"users", "images", "base.sh", "enter.sh", "options.py"} {
		k.Field(name, file(name))
	}
	for _, i := range r.built() {
		k.List("packages/"+i.name, r.packages[i.name])
		k.List("options/"+i.name, r.options[i.name])
	}
	k.List("base", r.packages[layerBase])
	k.List("common", r.packages[layerCommon])
	k.List("exclude", r.exclude)
	k.List("drop", r.drop)
	return k.Sum()
}

// dropped reports whether a path is left out of images, by itself or with a folder that it is in.
func (r *recipe) dropped(name string) bool {
	for dir := name; dir != "." && dir != "/" && dir != ""; dir = path.Dir(dir) {
		for _, pattern := range r.drop {
			// parse has checked the patterns.
			if match, err := path.Match(pattern, dir); err == nil && match {
				return true
			}
		}
	}
	return false
}
