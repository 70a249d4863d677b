package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/diskimage"
)

// Result of a build.
type Result struct {
	Image
	// Reused is true if the image already existed.
	Reused bool `json:"reused"`
	// Changes of package versions against the lock file in the source.
	Changes []debian.Change `json:"changes,omitempty"`
}

// Build builds the node's image unless one of the same recipe exists, and makes it the current one.
// An image appears complete or not at all. Builds by several processes in one folder run one after
// another.
func Build(ctx context.Context, c Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	rec, err := recipeOf(c.Release)
	if err != nil {
		return nil, err
	}
	c.report(StageCheck, "")
	unlock, err := lock(ctx, c.Dir, func() { c.report(StageCheck, "waiting for another build in %s to finish", c.Dir) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	node := filepath.Join(c.Dir, nodeDir)
	if err := sweep(node); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(node, workPrefix)
	if err != nil {
		return nil, fmt.Errorf("images folder: %w", err)
	}
	result, err := c.build(ctx, rec, node, work)
	if sweepErr := os.RemoveAll(work); sweepErr != nil {
		err = errors.Join(err, fmt.Errorf("images folder: %w", sweepErr))
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// sweep removes what killed builds left behind. Nothing is mounted there (see debian.Command.Run).
func sweep(node string) error {
	left, err := filepath.Glob(filepath.Join(node, workPrefix+"*"))
	if err != nil {
		return fmt.Errorf("images folder: %w", err)
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("images folder: %w", err)
		}
	}
	return nil
}

func (c *Config) build(ctx context.Context, rec *recipe, node, work string) (*Result, error) {
	agent, err := readProgram("regiond-node", c.Agent)
	if err != nil {
		return nil, err
	}
	init, err := readProgram("regiond-init", c.Init)
	if err != nil {
		return nil, err
	}
	root, err := c.rootfs(ctx, rec, filepath.Join(node, rootfsDir), work)
	if err != nil {
		return nil, err
	}
	changes := rec.lock.Diff(root.lock)
	if c.Locked && len(changes) > 0 {
		return nil, lockedError(rec.release, changes)
	}
	version, err := rec.version(root.key, root.lock.String(), programs{agent.sha256, init.sha256})
	if err != nil {
		return nil, err
	}
	result := &Result{Changes: changes}
	if _, err := open(c.Dir, version); err == nil {
		result.Reused = true
	} else {
		if !errors.Is(err, fs.ErrNotExist) {
			c.Log.Warn("image is damaged; rebuilding it", slog.String("version", version), slog.Any("error", err))
		}
		if err := debian.CheckPrerequisites(os.Geteuid(), prerequisites, debian.FileExists); err != nil {
			return nil, err
		}
		if err := c.assemble(ctx, rec, root, version, agent, init, work); err != nil {
			return nil, fmt.Errorf("build image %s: %w", version, err)
		}
	}
	if err := makeCurrent(c.Dir, version); err != nil {
		return nil, err
	}
	image, err := open(c.Dir, version)
	if err != nil {
		return nil, err
	}
	result.Image = *image
	return result, nil
}

// rootfs returns Debian's root file system from the cache, or builds it.
func (c *Config) rootfs(ctx context.Context, rec *recipe, cache, work string) (*rootfs, error) {
	key, err := rec.rootfsKey()
	if err != nil {
		return nil, err
	}
	if !c.Refresh {
		root, err := openRootfs(cache, key)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return root, err
		}
	}
	if err := debian.CheckPrerequisites(os.Geteuid(), prerequisites, debian.FileExists); err != nil {
		return nil, err
	}
	c.report(StagePackages, "")
	return c.buildRootfs(ctx, rec, key, cache, work)
}

func lockedError(release string, changes []debian.Change) error {
	return fmt.Errorf("locked build: %d packages differ from images/node/%s.lock: %s; build without --locked, or update the lock file (see the images package)",
		len(changes), release, strings.Join(debian.Summary(changes, 10), "; "))
}

// copyFile copies one of the few files that an image takes unchanged.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// assemble is the second stage.
func (c *Config) assemble(ctx context.Context, rec *recipe, root *rootfs, version string, agent, init *program, work string) error {
	a := assembly{
		rec: rec, root: root, version: version,
		out: filepath.Join(work, "image"), system: filepath.Join(work, "system"), work: work,
	}
	steps := []struct {
		stage string
		do    func(context.Context) error
	}{
		{StageSystem, func(ctx context.Context) error { return a.makeSystem(ctx, agent.content) }},
		{StageInitramfs, func(ctx context.Context) error { return a.makeInitramfs(ctx, init) }},
		{StageESP, a.makeESP},
		{StageFilesystem, a.makeFilesystems},
		{StageChunks, a.makeChunks},
	}
	for _, s := range steps {
		c.report(s.stage, "")
		if err := s.do(ctx); err != nil {
			return err
		}
	}
	return replaceDir(a.out, filepath.Join(c.Dir, nodeDir, version))
}

// writeManifest comes last: a folder without a manifest is not an image.
func (a *assembly) writeManifest(mbr []byte, partitions []diskimage.Partition) error {
	return diskimage.WriteManifest(a.out, &diskimage.Manifest{
		Version: a.version, MBR: mbr, Partitions: partitions, KernelRelease: a.kernel,
	})
}
