package images

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Versions of what Go code does to an image beyond the embedded files. They go into the hashes:
// raise one when the code of its stage changes what it makes.
const (
	rootfsRevision = "1"
	imageRevision  = "1"
)

//go:embed all:node
var recipeFiles embed.FS

// recipe is what a release's image is made of.
type recipe struct {
	release  string
	packages []string // installed
	tools    []string // taken apart
	exclude  []string // dpkg path-exclude patterns
	drop     []string // folders of kernel modules
	modules  []string // of the initramfs
	enable   []string // units
	mask     []string // units
	lock     lockFile // versions that were tested
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
		*list = parseList(string(content))
	}
	content, err := recipeFiles.ReadFile("node/" + release + ".lock")
	if err != nil {
		return nil, fmt.Errorf("image recipe: %w", err)
	}
	if r.lock, err = parseLock(string(content)); err != nil {
		return nil, fmt.Errorf("image recipe, node/%s.lock: %w", release, err)
	}
	return r, nil
}

// parseList returns the lines that are neither empty nor comments.
func parseList(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// rootfsKey names the root file system of this recipe in the cache: release and hash.
func (r *recipe) rootfsKey() (string, error) {
	h := newKeyHash(rootfsRevision, r.release)
	h.list("packages", r.packages)
	h.list("tools", r.tools)
	h.list("exclude", r.exclude)
	h.list("drop", r.drop)
	for _, script := range rootfsScripts {
		content, err := recipeFiles.ReadFile("node/" + script)
		if err != nil {
			return "", fmt.Errorf("image recipe: %w", err)
		}
		h.field(script, string(content))
	}
	return r.release + "-" + h.sum(), nil
}

// programs are regiond's own, by their SHA-256.
type programs struct{ agent, init string }

// version names an image: release and hash of all that goes into it. packages is the content of
// the root file system's packages.lock.
func (r *recipe) version(rootfsKey, packages string, p programs) (string, error) {
	h := newKeyHash(imageRevision, rootfsKey)
	h.field("packages.lock", packages)
	h.field("regiond-node", p.agent)
	h.field("regiond-init", p.init)
	h.list("modules", r.modules)
	h.list("enable", r.enable)
	h.list("mask", r.mask)
	err := fs.WalkDir(recipeFiles, "node", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || (path != "node/mke2fs.conf" && !strings.HasPrefix(path, "node/files/")) {
			return err
		}
		content, err := recipeFiles.ReadFile(path)
		if err != nil {
			return err
		}
		h.field(path, string(content))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("image recipe: %w", err)
	}
	for _, text := range bootTexts() {
		h.field(text.path, text.content)
	}
	return r.release + "-" + h.sum(), nil
}

// keyHash is a SHA-256 over named fields, each with its length, so that no two inputs look alike.
type keyHash struct {
	w   io.Writer
	sum func() string
}

func newKeyHash(fields ...string) keyHash {
	sha := sha256.New()
	h := keyHash{w: sha, sum: func() string { return hex.EncodeToString(sha.Sum(nil))[:12] }}
	for _, f := range fields {
		h.field("", f)
	}
	return h
}

func (h keyHash) field(name, content string) {
	// Writing to a hash does not fail (hash.Hash).
	fmt.Fprintf(h.w, "%q %d %s\n", name, len(content), content)
}

func (h keyHash) list(name string, lines []string) { h.field(name, strings.Join(lines, "\n")) }
