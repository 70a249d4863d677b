package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"regiond.dev/regiond/images/debian"
)

// build is a set being built.
type build struct {
	*recipe
	config *Config
	layout string
	dir    string // folder of the build
	layers map[string]*built
	fresh  map[string]bool // layers built by this run
}

// Build builds the images of a release unless a set of the same recipe exists, and makes it the
// current one. A set appears complete or not at all. Builds by several processes in one folder run
// one after another.
func Build(ctx context.Context, c Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	rec, err := recipeOf(c.Release)
	if err != nil {
		return nil, err
	}
	layout := LayoutDir(c.Dir)
	// A set that exists does not wait for a build of another release, unless it borrows images from
	// that release.
	if len(rec.borrowed) == 0 {
		if current, ok := c.reusable(rec, layout); ok {
			return c.finish(rec, layout, current, true)
		}
	}
	unlock, err := debian.LockFile(ctx, filepath.Join(layout, lockName), func() { c.report("", "waiting for another build in %s to finish", layout) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	result, err := c.build(ctx, rec, layout)
	if err != nil {
		return nil, fmt.Errorf("images of OpenStack %s: %w", c.Release, err)
	}
	return result, nil
}

// build builds with the folder locked.
func (c *Config) build(ctx context.Context, rec *recipe, layout string) (*Result, error) {
	borrowed, err := c.borrow(ctx, rec, layout)
	if err != nil {
		return nil, err
	}
	b := &build{
		recipe: rec, config: c, layout: layout, dir: filepath.Join(layout, buildDir, rec.release+"-"+rec.key),
		layers: map[string]*built{}, fresh: map[string]bool{},
	}
	if current, ok := c.reusable(rec, layout); ok {
		if current, err = b.updateBorrowed(current, borrowed); err != nil {
			return nil, err
		}
		return c.finish(rec, layout, current, true)
	}
	if err := debian.CheckPrerequisites(os.Geteuid(), prerequisites, debian.FileExists); err != nil {
		return nil, err
	}
	if err := b.prepare(); err != nil {
		return nil, err
	}
	if err := b.makeLayers(ctx); err != nil {
		return nil, err
	}
	options, err := b.extractOptions(ctx)
	if err != nil {
		return nil, err
	}
	lock := b.builtLock()
	if changes := rec.lock.Diff(lock); c.Locked && len(changes) > 0 {
		return nil, lockedError(rec.release, changes)
	}
	set, err := b.assemble(borrowed)
	if err != nil {
		return nil, err
	}
	if err := b.publish(set, lock, options); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(b.dir); err != nil {
		return nil, err
	}
	if err := collectGarbage(c.Dir); err != nil {
		return nil, err
	}
	return c.finish(rec, layout, set, false)
}

// reusable returns the current set if it is of this recipe and complete.
func (c *Config) reusable(rec *recipe, layout string) (Set, bool) {
	current, err := Current(c.Dir, c.Release)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Warn("component images can't be read; rebuilding them", slog.String("release", c.Release), slog.Any("error", err))
	}
	if err != nil || c.Refresh || current.Recipe != rec.key {
		return Set{}, false
	}
	return current, c.complete(layout, current)
}

// updateBorrowed replaces borrowed images that their release has built anew since.
func (b *build) updateBorrowed(current Set, borrowed map[string]Image) (Set, error) {
	next := current
	next.Images = maps.Clone(current.Images)
	maps.Copy(next.Images, borrowed)
	if next.sameImages(current) {
		return current, nil
	}
	content, err := os.ReadFile(filepath.Join(b.layout, b.release+lockSuffix))
	if err != nil {
		return Set{}, err
	}
	lock, err := debian.ParseLock(string(content))
	if err != nil {
		return Set{}, err
	}
	options, err := ReadOptions(b.config.Dir, b.release)
	if err != nil {
		return Set{}, err
	}
	for name, release := range b.borrowed {
		theirs, err := ReadOptions(b.config.Dir, release)
		if err != nil {
			return Set{}, err
		}
		if options[name] != nil {
			options[name] = theirs[name]
		}
	}
	return next, b.publish(next, lock, options)
}

// borrow builds the releases that this one borrows images from.
func (c *Config) borrow(ctx context.Context, rec *recipe, layout string) (map[string]Image, error) {
	out := map[string]Image{}
	for name, release := range rec.borrowed {
		from, err := recipeOf(release)
		if err != nil {
			return nil, err
		}
		config := *c
		config.Release, config.Refresh = release, false
		result, err := config.build(ctx, from, layout)
		if err != nil {
			return nil, fmt.Errorf("image %s of OpenStack %s: %w", name, release, err)
		}
		out[name] = result.Images[name]
	}
	return out, nil
}

// prepare removes what other builds of the release left behind and, with Refresh, what this one
// left.
func (b *build) prepare() error {
	left, err := filepath.Glob(filepath.Join(b.layout, buildDir, b.release+"-*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		// Nothing is mounted there (see enter.sh).
		if dir != b.dir || b.config.Refresh {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(b.dir, 0o755)
}

func (b *build) makeLayers(ctx context.Context) error {
	names := []string{layerBase, layerCommon}
	for _, i := range b.recipe.built() {
		names = append(names, i.name)
	}
	for n, name := range names {
		b.config.report(name, "layer %s (%d of %d)", name, n+1, len(names))
		if err := b.ensureLayer(ctx, name); err != nil {
			return fmt.Errorf("layer %s: %w", name, err)
		}
		if name == layerBase {
			bytes, err := b.download(ctx)
			if err != nil {
				return fmt.Errorf("size of the download: %w", err)
			}
			b.config.report("", "will download about %d MB of packages", (bytes+999_999)/1_000_000)
		}
	}
	return nil
}

// builtLock joins the packages of all layers.
func (b *build) builtLock() debian.Lock {
	lock := debian.Lock{}
	for _, l := range b.layers {
		for name, version := range l.Lock {
			lock[name] = version
		}
	}
	return lock
}

func lockedError(release string, changes []debian.Change) error {
	return fmt.Errorf("locked build: %d packages differ from images/oci/recipe/%s.lock: %s; build without --locked, or update the lock file "+
		"(see package images/oci)", len(changes), release, strings.Join(debian.Summary(changes, 10), "; "))
}

// complete reports whether a set's manifests, configurations and layers exist. Clients check their
// content when they pull.
func (c *Config) complete(layout string, set Set) bool {
	for _, name := range set.Names() {
		if _, err := blobsOf(layout, set.Images[name].Digest); err != nil {
			c.Log.Warn("component images are incomplete; rebuilding them", slog.String("image", name), slog.Any("error", err))
			return false
		}
	}
	return true
}

// finish compares a set with the lock file and options that regiond was built with.
func (c *Config) finish(rec *recipe, layout string, set Set, reused bool) (*Result, error) {
	result := &Result{Set: set, Reused: reused}
	content, err := os.ReadFile(filepath.Join(layout, rec.release+lockSuffix))
	if err != nil {
		return nil, err
	}
	lock, err := debian.ParseLock(string(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(layout, rec.release+lockSuffix), err)
	}
	result.Changes = rec.lock.Diff(lock)
	if c.Locked && len(result.Changes) > 0 {
		return nil, lockedError(rec.release, result.Changes)
	}
	if c.Options == nil {
		return result, nil
	}
	extracted, err := ReadOptions(c.Dir, rec.release)
	if err != nil {
		return nil, err
	}
	known, err := c.Options(rec.release)
	if err != nil {
		return nil, err
	}
	result.OptionChanges = known.diff(extracted)
	return result, nil
}

// now returns the time of a build as it is recorded.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// hashOf parses a digest that this package wrote.
func hashOf(digest string) (v1.Hash, error) {
	h, err := v1.NewHash(digest)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("digest %q: %w", digest, err)
	}
	return h, nil
}
