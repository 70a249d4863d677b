package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"regiond.dev/regiond/images/debian"
)

// sourceDate (seconds since 1970, the day Debian 13 was released) is the time of all files in an
// image, so that the same packages give the same bytes.
const sourceDate = 1754697600

// rootfsScripts are run by mmdebstrap.
var rootfsScripts = []string{"essential.sh", "customize.sh"}

// standIn is the empty package that essential.sh installs; it does not come from Debian.
const standIn = "regiond-no-initramfs-tool"

// PackagesFile in an image's folder lists its Debian packages, name=version, sorted.
const PackagesFile = "packages.lock"

// rootfs is Debian's root file system in the cache, before anything of regiond's is added.
type rootfs struct {
	key  string
	dir  string
	lock debian.Lock
}

// Files in its folder.
func (r *rootfs) archive() string           { return filepath.Join(r.dir, "rootfs.tar.zst") }
func (r *rootfs) boot(name string) string   { return filepath.Join(r.dir, "boot", name) }
func (r *rootfs) loader(name string) string { return filepath.Join(r.dir, "ipxe", name) }

// openRootfs returns the cached root file system, or an error that is fs.ErrNotExist.
func openRootfs(dir, key string) (*rootfs, error) {
	r := &rootfs{key: key, dir: filepath.Join(dir, key)}
	content, err := os.ReadFile(filepath.Join(r.dir, PackagesFile))
	if err != nil {
		return nil, fmt.Errorf("cached root file system: %w", err)
	}
	if r.lock, err = debian.ParseLock(string(content)); err != nil {
		return nil, fmt.Errorf("cached root file system, %s: %w; remove that folder and rebuild", filepath.Join(r.dir, PackagesFile), err)
	}
	return r, nil
}

// buildRootfs runs mmdebstrap in work and puts the result into the cache.
func (c *Config) buildRootfs(ctx context.Context, rec *recipe, key, cache, work string) (*rootfs, error) {
	out := filepath.Join(work, "rootfs")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("build root file system: %w", err)
	}
	for _, script := range rootfsScripts {
		content, err := recipeFiles.ReadFile("node/" + script)
		if err == nil {
			err = os.WriteFile(filepath.Join(work, script), content, 0o755)
		}
		if err != nil {
			return nil, fmt.Errorf("build root file system: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "drop"), []byte(strings.Join(rec.drop, "\n")+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("build root file system: %w", err)
	}
	err := debian.Command{
		Name: "mmdebstrap", Dir: work, Args: mmdebstrapArgs(rec, c.Mirror, work, out),
		Env: []string{"TMPDIR=" + work, "SOURCE_DATE_EPOCH=" + strconv.Itoa(sourceDate)},
		Lines: func(line string) {
			// mmdebstrap's own lines; the others are apt's and dpkg's.
			if step, ok := strings.CutPrefix(line, "I: "); ok && !strings.Contains(step, work) {
				c.report(StagePackages, "%s", step)
				return
			}
			c.Log.Debug("mmdebstrap", slog.String("line", line))
		},
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("build root file system of Debian %s: %w; check that Debian's archive is reachable, or pass a mirror", rec.release, err)
	}
	if err := writePackagesLock(out); err != nil {
		return nil, err
	}
	if err := replaceDir(out, filepath.Join(cache, key)); err != nil {
		return nil, fmt.Errorf("cache root file system: %w", err)
	}
	return openRootfs(cache, key)
}

// mmdebstrapArgs returns the command line for a recipe. work holds the scripts; out receives the
// results.
func mmdebstrapArgs(rec *recipe, mirror, work, out string) []string {
	args := []string{
		"--mode=root", "--variant=essential", "--architectures=amd64", "--keyring=" + debian.Keyring,
		`--aptopt=Apt::Install-Recommends "false"`,
		// The result of an interrupted build is never used, so nothing needs to be synced.
		"--dpkgopt=force-unsafe-io",
	}
	for _, pattern := range rec.exclude {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	customize := debian.Quote(filepath.Join(work, "customize.sh")) + ` "$1" ` + debian.Quote(out) + " " + debian.Quote(filepath.Join(work, "drop"))
	for _, tool := range rec.tools {
		customize += " " + debian.Quote(tool)
	}
	args = append(args,
		"--include="+strings.Join(rec.packages, ","),
		"--essential-hook="+debian.Quote(filepath.Join(work, "essential.sh"))+` "$1"`,
		"--customize-hook="+customize,
		rec.release, filepath.Join(out, "rootfs.tar.zst"))
	if mirror != "" {
		args = append(args, mirror)
	}
	return args
}

// writePackagesLock turns what customize.sh listed into a lock file.
func writePackagesLock(out string) error {
	list := filepath.Join(out, "packages")
	content, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("list of installed packages: %w", err)
	}
	lock := debian.Lock{}
	for _, line := range debian.Lines(string(content)) {
		// A package may be in both lists, then with the same version.
		if name, version, ok := strings.Cut(line, "="); ok && name != standIn {
			lock[name] = version
		}
	}
	if err := os.WriteFile(filepath.Join(out, PackagesFile), []byte(lock.String()), 0o644); err != nil {
		return fmt.Errorf("list of installed packages: %w", err)
	}
	return os.Remove(list)
}

// replaceDir moves a finished folder to its path. An older one is moved away first: renaming over a
// folder that is not empty fails.
func replaceDir(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	// A folder with the final name must be complete even after a power cut.
	if err := debian.SyncFS(from); err != nil {
		return err
	}
	old := from + ".old"
	if err := os.Rename(to, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return os.RemoveAll(old)
}
