package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/diskimage"
)

// Files in an image's folder, beside those of diskimage.
const (
	// KernelFile and InitramfsFile are booted over the network.
	KernelFile    = "vmlinuz"
	InitramfsFile = "initramfs"
	// LoaderDir holds the loaders served over TFTP: LoaderUEFI and LoaderBIOS.
	LoaderDir  = "ipxe"
	LoaderUEFI = "snponly.efi"
	LoaderBIOS = "undionly.kpxe"
)

// Names in the images folder.
const (
	nodeDir     = "node"
	currentLink = "current"
	rootfsDir   = ".rootfs"
	lockName    = ".lock"
	workPrefix  = ".work-"
)

// Image is a node image on disk.
type Image struct {
	Version string `json:"version"`
	// Path of its folder.
	Path string `json:"path"`
	// Current is true for the one that is installed on servers.
	Current       bool      `json:"current"`
	KernelRelease string    `json:"kernelRelease"`
	Built         time.Time `json:"built"`
	// DiskBytes is the size of the smallest disk that it fits on; WriteBytes and TransferBytes are
	// what an installation writes and fetches.
	DiskBytes      int64 `json:"diskBytes"`
	WriteBytes     int64 `json:"writeBytes"`
	TransferBytes  int64 `json:"transferBytes"`
	InitramfsBytes int64 `json:"initramfsBytes"`
}

// Current returns the folder of the image that is installed on servers.
func Current(dir string) (string, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, nodeDir, currentLink))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no node image in %s; build one with: regiond image build: %w", dir, err)
	}
	if err != nil {
		return "", fmt.Errorf("node image: %w", err)
	}
	return path, nil
}

// List returns the node's images, newest first. A folder without a valid image is left out and
// named in the error; the list of the others is valid all the same.
func List(dir string) ([]Image, error) {
	entries, err := os.ReadDir(filepath.Join(dir, nodeDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var out []Image
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		image, err := open(dir, e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, *image)
	}
	slices.SortFunc(out, func(a, b Image) int {
		return cmp.Or(b.Built.Compare(a.Built), cmp.Compare(a.Version, b.Version))
	})
	return out, errors.Join(errs...)
}

// open reads an image.
func open(dir, version string) (*Image, error) {
	path := filepath.Join(dir, nodeDir, version)
	m, err := diskimage.ReadManifest(path)
	if err != nil {
		return nil, err
	}
	if m.Version != version {
		return nil, fmt.Errorf("image %s: its manifest has version %q; remove the folder and rebuild the image", path, m.Version)
	}
	initramfs, err := os.Stat(filepath.Join(path, InitramfsFile))
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", version, err)
	}
	manifest, err := os.Stat(filepath.Join(path, diskimage.ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", version, err)
	}
	// DiskBytes follows diskimage.Layout: 1 MiB before and after, and root-b as big as root-a.
	image := &Image{Version: version, Path: path, KernelRelease: m.KernelRelease, Built: manifest.ModTime().UTC(),
		InitramfsBytes: initramfs.Size(), WriteBytes: m.Bytes(), DiskBytes: 2 * diskimage.MiB}
	// A chunk that occurs twice is fetched twice.
	for _, p := range m.Partitions {
		image.DiskBytes += p.Size
		if p.Label == diskimage.LabelRootA {
			image.DiskBytes += p.Size
		}
		for _, c := range p.Chunks {
			image.TransferBytes += c.Compressed
		}
	}
	current, err := os.Readlink(filepath.Join(dir, nodeDir, currentLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("image %s: %w", version, err)
	}
	image.Current = current == version
	return image, nil
}

// Remove deletes an image. The current one is refused: servers may be installing it.
func Remove(ctx context.Context, dir, version string) error {
	if version == "" || version != filepath.Base(version) || strings.HasPrefix(version, ".") || version == currentLink {
		return fmt.Errorf("remove image: %q is not an image's version; see: regiond image list", version)
	}
	path := filepath.Join(dir, nodeDir, version)
	missing := fmt.Errorf("remove image: there is no image %s in %s; see: regiond image list", version, dir)
	if !debian.FileExists(path) {
		return missing // without creating a folder for the lock
	}
	unlock, err := lock(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer unlock()
	if !debian.FileExists(path) {
		return missing // removed by another process meanwhile
	}
	if current, err := os.Readlink(filepath.Join(dir, nodeDir, currentLink)); err == nil && current == version {
		return fmt.Errorf("remove image: %s is the current image, which servers install; build another one first", version)
	}
	// Renaming it first removes it at once. The folder need not hold a valid image.
	old := filepath.Join(dir, nodeDir, workPrefix+"removed-"+version)
	if err := os.Rename(path, old); err != nil {
		return fmt.Errorf("remove image: %w", err)
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("remove image: %w", err)
	}
	return nil
}

// makeCurrent atomically points the current link at a version.
func makeCurrent(dir, version string) error {
	link := filepath.Join(dir, nodeDir, currentLink)
	if now, err := os.Readlink(link); err == nil && now == version {
		return nil
	}
	next := filepath.Join(dir, nodeDir, workPrefix+currentLink)
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("current image: %w", err)
	}
	if err := os.Symlink(version, next); err != nil {
		return fmt.Errorf("current image: %w", err)
	}
	if err := os.Rename(next, link); err != nil {
		return fmt.Errorf("current image: %w", err)
	}
	return nil
}

// lock locks the images folder for writing. waiting is called once if another process holds the
// lock.
func lock(ctx context.Context, dir string, waiting func()) (unlock func(), err error) {
	return debian.LockFile(ctx, filepath.Join(dir, nodeDir, lockName), waiting)
}
