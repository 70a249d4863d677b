package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// devices that programs expect in /dev, by their numbers (devices.txt of the kernel).
var devices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}}

// Unpack makes a folder with the file system of an image, to run its programs in by chroot where no
// container runtime is. The image is verified first.
func Unpack(ctx context.Context, imageDir string, image Image, dir string) error {
	if err := Verify(imageDir, image); err != nil {
		return err
	}
	layout := LayoutDir(imageDir)
	digest, err := hashOf(image.Digest)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(BlobPath(layout, digest))
	if err != nil {
		return fmt.Errorf("unpack image %s: %w", image.Reference(), err)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		return fmt.Errorf("unpack image %s: %w", image.Reference(), err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("unpack image %s: %w", image.Reference(), err)
	}
	for _, l := range manifest.Layers {
		if err := applyLayer(ctx, BlobPath(layout, l.Digest), dir); err != nil {
			return fmt.Errorf("unpack image %s, layer %s: %w", image.Reference(), l.Digest, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // programs run as other users, whatever the umask is
		return fmt.Errorf("unpack image %s: %w", image.Reference(), err)
	}
	for _, d := range devices {
		if err := makeDevice(filepath.Join(dir, "dev"), d.name, d.major, d.minor); err != nil {
			return fmt.Errorf("unpack image %s: %w", image.Reference(), err)
		}
	}
	return nil
}

func applyLayer(ctx context.Context, blob, dir string) error {
	f, err := os.Open(blob)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := compression.DecompressStream(f)
	if err != nil {
		return err
	}
	_, err = archive.Apply(ctx, dir, plain)
	return errors.Join(err, plain.Close())
}

func makeDevice(dir, name string, major, minor uint32) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor)))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("device %s: %w", path, err)
	}
	return os.Chmod(path, 0o666) // whatever the umask is
}
