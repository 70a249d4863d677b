package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/images/debian"
)

// rootfsLink in an image's folder leads to the root file system in the cache that it was made of.
const rootfsLink = "rootfs"

// Rootfs returns the archive (tar, compressed by zstd) of the root file system that the current image is made of: Debian and its
// services, before regiond's agent and configuration are added.
func Rootfs(dir string) (string, error) {
	current, err := Current(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(current, rootfsLink))
	if err != nil {
		return "", fmt.Errorf("root file system of image %s: %w; build it again with: regiond image build --refresh", filepath.Base(current), err)
	}
	root := rootfs{dir: path}
	if _, err := os.Stat(root.archive()); err != nil {
		return "", fmt.Errorf("root file system of image %s: %w; build it again with: regiond image build --refresh", filepath.Base(current), err)
	}
	return root.archive(), nil
}

// Unpack makes in a new folder what the root partition of a server holds, agent and units included,
// for a system that is started from a folder. The image is built first if need be. The folder
// appears complete or not at all.
func Unpack(ctx context.Context, c Config, dir string) (*Result, error) {
	result, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	if debian.FileExists(dir) {
		return nil, fmt.Errorf("unpack image %s: %s is there already", result.Version, dir)
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
		err = furnish(ctx, rec, part, result.Version, agent.content, fetched.ModTime())
	}
	if err == nil {
		err = os.Rename(part, dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack image %s: %w", result.Version, err), os.RemoveAll(part))
	}
	return result, nil
}

// guestDir is beside the root file system: what the test guest's disk (images/guest) is made of.
const guestDir = "guest"

// GuestParts returns the folder with the parts of the test guest's disk that belong to the current
// image: boot.img and core.img of GRUB, and ipxe.lkrn.
func GuestParts(dir string) (string, error) {
	archive, err := Rootfs(dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(archive), guestDir), nil
}
