package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/images/debian"
)

// rootfsLink in an image's folder leads to the cached root file system that it was built from.
const rootfsLink = "rootfs"

// Rootfs returns the archive (tar, compressed with zstd) of the root file system that the current
// image was built from: Debian and its services, without regiond's agent and configuration.
func Rootfs(dir string) (string, error) {
	current, err := Current(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(current, rootfsLink))
	if err != nil {
		return "", fmt.Errorf("root file system of image %s: %w; rebuild it with: regiond image build --refresh", filepath.Base(current), err)
	}
	root := rootfs{dir: path}
	if _, err := os.Stat(root.archive()); err != nil {
		return "", fmt.Errorf("root file system of image %s: %w; rebuild it with: regiond image build --refresh", filepath.Base(current), err)
	}
	return root.archive(), nil
}

// Unpack creates a new folder with the content of a server's root partition, including agent and
// units, for a system that is started from a folder. It builds the image first if necessary. The
// folder appears complete or not at all.
func Unpack(ctx context.Context, c Config, dir string) (*Result, error) {
	result, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	if debian.FileExists(dir) {
		return nil, fmt.Errorf("unpack image %s: %s already exists", result.Version, dir)
	}
	rec, err := recipeOf(c.Release)
	if err != nil {
		return nil, err
	}
	agent, err := readProgram("regiond-node", c.Agent)
	if err != nil {
		return nil, err
	}
	key, err := rec.rootfsKey()
	if err != nil {
		return nil, err
	}
	root, err := openRootfs(filepath.Join(c.Dir, nodeDir, rootfsDir), key)
	if err != nil {
		return nil, err
	}
	fetched, err := os.Stat(root.archive())
	if err != nil {
		return nil, fmt.Errorf("unpack image %s: %w", result.Version, err)
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return nil, fmt.Errorf("unpack image %s: %w", result.Version, err)
	}
	err = unpackRootfs(ctx, root, part)
	if err == nil {
		err = customize(ctx, rec, part, result.Version, agent.content, fetched.ModTime())
	}
	if err == nil {
		err = os.Rename(part, dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack image %s: %w", result.Version, err), os.RemoveAll(part))
	}
	return result, nil
}

// guestDir, beside the root file system, has the parts of the test guest's disk (images/guest).
const guestDir = "guest"

// GuestParts returns the folder with the current image's parts of the test guest's disk: boot.img
// and core.img of GRUB, and ipxe.lkrn.
func GuestParts(dir string) (string, error) {
	archive, err := Rootfs(dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(archive), guestDir), nil
}
