package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/atomicfile"
)

// layer is a blob that is part of images.
type layer struct {
	digest, diffID v1.Hash
	size           int64
	media          types.MediaType
}

// built is a layer in a build's folder: its tree in fs, and this file once it is complete.
type built struct {
	Digest v1.Hash     `json:"digest"`
	DiffID v1.Hash     `json:"diffID"`
	Size   int64       `json:"size"`
	Made   time.Time   `json:"made"`     // when work on it began
	Lock   debian.Lock `json:"packages"` // of this layer and those below
}

func (b *built) layer() layer { return layer{b.Digest, b.DiffID, b.Size, types.OCILayerZStd} }

// Names in a build's folder, beside a folder for each layer.
const (
	treeDir    = "fs"
	layerFile  = "layer.json"
	archiveDir = "archives" // packages, kept until the build is done
	rootDir    = "root"     // where layers are mounted
	workDir    = "work"     // for overlayfs
	scratchDir = "scratch"  // upper folder of commands whose output files are discarded
)

// stack lists a layer and those below it, topmost first.
func (r *recipe) stack(name string) []string {
	switch name {
	case layerBase:
		return []string{layerBase}
	case layerCommon:
		return []string{layerCommon, layerBase}
	}
	for _, i := range r.images {
		if i.name == name {
			return append([]string{name}, r.stack(i.below)...)
		}
	}
	return nil
}

// ensureLayer builds a layer unless this build has it.
func (b *build) ensureLayer(ctx context.Context, name string) error {
	dir := filepath.Join(b.dir, name)
	below := b.stack(name)[1:]
	// A layer above a rebuilt one may no longer fit it.
	if !slices.ContainsFunc(below, func(l string) bool { return b.fresh[l] }) {
		if done, err := readBuilt(b.layout, dir); err == nil {
			b.layers[name] = done
			return nil
		}
	}
	b.fresh[name] = true
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	made := time.Now().Truncate(time.Second)
	began := made // of all layers
	if base := b.layers[layerBase]; base != nil {
		began = base.Made
	}
	install := b.install
	if name == layerBase {
		install = b.bootstrap
	}
	if err := install(ctx, name); err != nil {
		return err
	}
	lock, err := b.installed(ctx, name)
	if err != nil {
		return err
	}
	var trees []string
	for _, l := range below {
		trees = append(trees, filepath.Join(b.dir, l, treeDir))
	}
	packed, err := packLayer(b.layout, filepath.Join(dir, treeDir), trees, began, b.dropped)
	if err != nil {
		return err
	}
	done := &built{packed.digest, packed.diffID, packed.size, made, lock}
	content, err := json.Marshal(done)
	if err == nil {
		err = debian.SyncFS(dir)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, layerFile), content, 0o644)
	}
	b.layers[name] = done
	return err
}

// readBuilt reads a layer that an earlier run of this build finished.
func readBuilt(layout, dir string) (*built, error) {
	content, err := os.ReadFile(filepath.Join(dir, layerFile))
	if err != nil {
		return nil, err
	}
	var done built
	if err := json.Unmarshal(content, &done); err != nil {
		return nil, err
	}
	if _, err := os.Stat(BlobPath(layout, done.Digest)); err != nil {
		return nil, err
	}
	return &done, nil
}

// bootstrap creates the base layer's tree. The package lists stay in it for the layers above, and
// so do the build's own files; packing leaves them out.
func (b *build) bootstrap(ctx context.Context, name string) error {
	users, script := filepath.Join(b.dir, "users"), filepath.Join(b.dir, "base.sh")
	var lines strings.Builder
	for _, line := range debian.Lines(embedded("users")) {
		fmt.Fprintln(&lines, line)
	}
	if err := errors.Join(os.WriteFile(users, []byte(lines.String()), 0o644), os.WriteFile(script, []byte(embedded("base.sh")), 0o755)); err != nil {
		return err
	}
	args := []string{
		"--mode=root", "--variant=minbase", "--architectures=amd64", "--format=directory", "--keyring=" + debian.Keyring, "--skip=cleanup/apt",
		`--aptopt=Apt::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
		// The result of an interrupted build is never used, so nothing needs to be synced.
		"--dpkgopt=force-unsafe-io",
	}
	if b.expired {
		args = append(args, `--aptopt=Acquire::Check-Valid-Until "false"`)
	}
	for _, pattern := range b.exclude {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	args = append(args, "--include="+strings.Join(b.packages[layerBase], ","),
		"--customize-hook="+debian.Quote(script)+` "$1" `+debian.Quote(users), b.suite, filepath.Join(b.dir, name, treeDir))
	if b.config.Mirror != "" {
		args = append(args, b.config.Mirror)
	}
	err := debian.Command{Name: "mmdebstrap", Dir: b.dir, Args: args, Env: b.env("TMPDIR=" + b.dir), Lines: b.debug}.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w; check that Debian's archive is reachable, or pass a mirror", err)
	}
	return err
}

// install creates the tree of a layer above base.
func (b *build) install(ctx context.Context, name string) error {
	below := b.stack(name)[1:]
	err := b.enter(ctx, below, filepath.Join(name, treeDir), b.debug, nil, append([]string{"apt-get", "--yes", "--no-install-recommends",
		"-o", "Dpkg::Options::=--force-unsafe-io", "-o", "APT::Keep-Downloaded-Packages=true", "install"}, b.packages[name]...)...)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w; Debian may have replaced packages since this build began; retry with --refresh", err)
	}
	return err
}

// enter runs a command in layers, with an upper folder that takes what it writes.
func (b *build) enter(ctx context.Context, below []string, upper string, lines func(string), stdout io.Writer, command ...string) error {
	var lower []string
	for _, name := range below {
		lower = append(lower, filepath.Join(name, treeDir))
	}
	// Relative paths, because colons and commas have a meaning in the overlay's options.
	args := append([]string{"-c", embedded("enter.sh"), "enter.sh", strings.Join(lower, ":"), upper, workDir, rootDir, archiveDir}, command...)
	return debian.Command{Name: "sh", Dir: b.dir, Args: args, Env: b.env(), Lines: lines, Stdout: stdout}.Run(ctx)
}

// query runs a command in layers and returns its output. Files that it writes are discarded.
func (b *build) query(ctx context.Context, layers []string, command ...string) (string, error) {
	if err := os.RemoveAll(filepath.Join(b.dir, scratchDir)); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err := b.enter(ctx, layers, scratchDir, b.debug, &out, command...)
	return out.String(), err
}

func (b *build) env(more ...string) []string {
	return append([]string{"DEBIAN_FRONTEND=noninteractive", "SOURCE_DATE_EPOCH=" + strconv.Itoa(sourceDate)}, more...)
}

func (b *build) debug(line string) {
	b.config.Log.Debug("component images", slog.String("release", b.release), slog.String("line", line))
}

// installed lists the packages of a layer and those below.
func (b *build) installed(ctx context.Context, name string) (debian.Lock, error) {
	text, err := b.query(ctx, b.stack(name), "dpkg-query", "--show", "--showformat", "${Package}=${Version}\n")
	if err != nil {
		return nil, err
	}
	lock, err := debian.ParseLock(text)
	if err != nil {
		return nil, fmt.Errorf("installed packages: %w", err)
	}
	return lock, nil
}

// download returns how many bytes of packages apt will fetch for all layers above base.
func (b *build) download(ctx context.Context) (int64, error) {
	command := []string{"apt-get", "--yes", "--no-install-recommends", "--print-uris", "install"}
	command = append(command, b.packages[layerCommon]...)
	for _, i := range b.recipe.built() {
		command = append(command, b.packages[i.name]...)
	}
	text, err := b.query(ctx, b.stack(layerBase), command...)
	if err != nil {
		return 0, err
	}
	return urisSize(text), nil
}

// urisSize adds up the sizes in the list that apt-get --print-uris prints: 'URI' file size hash.
func urisSize(text string) int64 {
	var sum int64
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 3 && strings.HasPrefix(line, "'") {
			if size, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
				sum += size
			}
		}
	}
	return sum
}
