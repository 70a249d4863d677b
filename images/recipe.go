package images

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/bootloader"
)

// Versions of the Go code's own contribution to an image, beyond the embedded files. They are part
// of the hashes: raise one when the code of its stage builds a different image.
const (
	rootfsRevision = "2"
	imageRevision  = "2"
)

//go:embed all:node
var recipeFiles embed.FS

// recipe is what a release's image is built from.
type recipe struct {
	release  string
	packages []string    // installed
	tools    []string    // single files are taken from these
	exclude  []string    // dpkg path-exclude patterns
	drop     []string    // folders of kernel modules
	modules  []string    // of the initramfs
	enable   []string    // units
	mask     []string    // units
	lock     debian.Lock // versions that were tested
}

func recipeOf(release string) (*recipe, error) {
	if !slices.Contains(Releases, release) {
		return nil, fmt.Errorf("image release %q is not known; known: %s", release, strings.Join(Releases, ", "))
	}
	r := &recipe{release: release}
	for name, list := range map[string]*[]string{
		"packages": &r.packages, "tools": &r.tools, "exclude": &r.exclude, "drop": &r.drop,
		"modules": &r.modules, "enable": &r.enable, "mask": &r.mask,
	} {
		content, err := recipeFiles.ReadFile("node/" + name)
		if err != nil {
			return nil, fmt.Errorf("image recipe: %w", err)
		}
		*list = debian.Lines(string(content))
	}
	content, err := recipeFiles.ReadFile("node/" + release + ".lock")
	if err != nil {
		return nil, fmt.Errorf("image recipe: %w", err)
	}
	if r.lock, err = debian.ParseLock(string(content)); err != nil {
		return nil, fmt.Errorf("image recipe, node/%s.lock: %w", release, err)
	}
	return r, nil
}

// rootfsKey returns the cache key of this recipe's root file system: release and hash.
func (r *recipe) rootfsKey() (string, error) {
	h := debian.NewKey(rootfsRevision, r.release)
	h.List("packages", r.packages)
	h.List("tools", r.tools)
	h.List("exclude", r.exclude)
	h.List("drop", r.drop)
	for _, script := range rootfsScripts {
		content, err := recipeFiles.ReadFile("node/" + script)
		if err != nil {
			return "", fmt.Errorf("image recipe: %w", err)
		}
		h.Field(script, string(content))
	}
	return r.release + "-" + h.Sum(), nil
}

// programs are regiond's own, by their SHA-256.
type programs struct{ agent, init string }

// version returns an image's version: release and hash of everything in it. packages is the content
// of the root file system's packages.lock.
func (r *recipe) version(rootfsKey, packages string, p programs) (string, error) {
	h := debian.NewKey(imageRevision, rootfsKey)
	h.Field("packages.lock", packages)
	h.Field("regiond-node", p.agent)
	h.Field("regiond-init", p.init)
	h.List("modules", r.modules)
	h.List("enable", r.enable)
	h.List("mask", r.mask)
	err := fs.WalkDir(recipeFiles, "node", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || (path != "node/mke2fs.conf" && !strings.HasPrefix(path, "node/files/")) {
			return err
		}
		content, err := recipeFiles.ReadFile(path)
		if err != nil {
			return err
		}
		h.Field(path, string(content))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("image recipe: %w", err)
	}
	for _, text := range bootloader.Files() {
		h.Field(text.Path, text.Content)
	}
	return r.release + "-" + h.Sum(), nil
}
