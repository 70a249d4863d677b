package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"regiond.dev/regiond/images"
)

// Names in the images folder: guest/SHA-256.raw, and a link to the latest build.
const (
	folder  = "guest"
	current = "current"
	suffix  = ".raw"
)

// Image is a built guest disk.
type Image struct {
	// Path of the raw disk.
	Path string `json:"path"`
	// Digest is the SHA-256 of its content, in hex.
	Digest string `json:"digest"`
}

// Build builds the guest's disk from Debian's parts in the current node image, unless it exists. It
// is instant and needs no network.
func Build(imageDir string) (Image, error) {
	source, err := images.GuestParts(imageDir)
	if err != nil {
		return Image{}, fmt.Errorf("guest: %w", err)
	}
	var p parts
	for name, content := range map[string]*[]byte{"boot.img": &p.boot, "core.img": &p.core, "ipxe.lkrn": &p.kernel} {
		if *content, err = os.ReadFile(filepath.Join(source, name)); err != nil {
			return Image{}, fmt.Errorf("guest: %w; rebuild the node image with: regiond image build --refresh", err)
		}
	}
	content, err := disk(p, script)
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	dir := filepath.Join(imageDir, folder)
	path := filepath.Join(dir, digest+suffix)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Image{}, fmt.Errorf("guest: %w", err)
	}
	if err := place(path, func(next string) error { return os.WriteFile(next, content, 0o644) }); err != nil {
		return Image{}, fmt.Errorf("guest: %w", err)
	}
	link := func(next string) error { return os.Symlink(digest+suffix, next) }
	if err := place(filepath.Join(dir, current), link); err != nil {
		return Image{}, fmt.Errorf("guest: %w", err)
	}
	return Image{Path: path, Digest: digest}, nil
}

// place creates a file under a temporary name and renames it when it is complete. Concurrent builds
// produce the same file.
func place(path string, create func(next string) error) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".next-")
	if err != nil {
		return err
	}
	next := filepath.Join(dir, "next")
	if err = create(next); err == nil {
		err = os.Rename(next, path)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// Path returns the path of the latest guest disk.
func Path(imageDir string) (string, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(imageDir, folder, current))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no test guest in %s; build it with: regiond image build --guest: %w", imageDir, err)
	}
	if err != nil {
		return "", fmt.Errorf("guest: %w", err)
	}
	return path, nil
}
