package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountPoint of the new root; the initramfs has it.
const mountPoint = "/sysroot"

// Mount mounts the root file system. ext4 replays its journal by itself, also when it is mounted read-only.
func Mount(device string, readOnly bool) error {
	if err := os.MkdirAll(mountPoint, 0o755); err != nil {
		return err
	}
	var flags uintptr
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("/dev/"+device, mountPoint, "ext4", flags, ""); err != nil {
		return fmt.Errorf("mount root file system %s: %w", device, err)
	}
	return nil
}

// Switch makes the mounted file system the root and becomes the init on it; it returns only on failure. As
// in switch_root(8), the pseudo file systems move along, and the files of the initramfs are removed, because
// they would keep their memory for ever.
func Switch(init string, arguments, environment []string) error {
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run"} {
		if err := unix.Mount(dir, filepath.Join(mountPoint, dir), "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s to the new root: %w", dir, err)
		}
	}
	old, err := os.Open("/")
	if err != nil {
		return err
	}
	if err := emptyInitramfs(old); err != nil {
		return err
	}
	// Ends with exec in any case.
	defer old.Close()
	if err := os.Chdir(mountPoint); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root to /: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change to the new root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Exec(init, append([]string{init}, arguments...), environment); err != nil {
		return fmt.Errorf("start %s of the new root: %w", init, err)
	}
	return nil
}

// emptyInitramfs removes the files of the old root, and never leaves its file system.
func emptyInitramfs(root *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil {
		return err
	}
	if fs.Type != unix.RAMFS_MAGIC && fs.Type != unix.TMPFS_MAGIC {
		return errors.New("the present root is not an initramfs: refusing to empty it")
	}
	var device unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &device); err != nil {
		return err
	}
	return removeBelow("/", device.Dev)
}

func removeBelow(dir string, device uint64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var info unix.Stat_t
		if err := unix.Lstat(path, &info); err != nil {
			return err
		}
		if info.Dev != device {
			continue
		}
		if e.IsDir() {
			if err := removeBelow(path, device); err != nil {
				return err
			}
			// A folder with the new root mounted on it, or below it, stays.
			_ = os.Remove(path)
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
