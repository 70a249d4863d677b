package images

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/images/debian"
)

// agentPath is the path of the agent in the root file system.
const agentPath = "usr/lib/regiond/regiond-node"

// removed from the root file system: a host has no apt, and the caches are useless there.
var removed = []string{"etc/apt", "var/lib/apt", "var/cache/apt", "var/cache/debconf", "var/cache/ldconfig", "var/log/alternatives.log", "var/log/apt", "var/log/dpkg.log"}

// mountPoints of etc/fstab.
var mountPoints = []string{
	"efi", "var/lib/regiond", "var/log/journal",
	"var/lib/nova", "var/lib/neutron", "var/lib/libvirt", "etc/libvirt/qemu", "etc/openvswitch",
}

// unpackRootfs unpacks Debian's root file system, without devices, which the kernel creates.
func unpackRootfs(ctx context.Context, r *rootfs, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("unpack root file system: %w", err)
	}
	err := debian.Command{Name: "tar", Args: []string{
		"--extract", "--zstd", "--file=" + r.archive(), "--directory=" + dir, "--exclude=./dev/*",
		"--numeric-owner", "--same-owner", "--preserve-permissions", "--xattrs", "--xattrs-include=*",
	}}.Run(ctx)
	if err != nil {
		return fmt.Errorf("unpack root file system: %w", err)
	}
	return nil
}

// customize turns Debian's root file system in dir into a host's.
func customize(ctx context.Context, rec *recipe, dir, version string, agent []byte, built time.Time) error {
	for _, path := range removed {
		if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
	}
	for _, path := range mountPoints {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
	}
	if err := writeOverlay(dir); err != nil {
		return err
	}
	if err := writeFile(dir, agentPath, agent, 0o755); err != nil {
		return err
	}
	// Empty, not "uninitialized", which would make systemd set all units to their presets at the first
	// boot.
	if err := writeFile(dir, "etc/machine-id", nil, 0o444); err != nil {
		return err
	}
	if err := writeOSRelease(dir, version); err != nil {
		return err
	}
	units := []struct {
		verb  string
		names []string
	}{{"preset-all", nil}, {"enable", rec.enable}, {"mask", rec.mask}, {"set-default", []string{"multi-user.target"}}}
	for _, u := range units {
		if err := (debian.Command{Name: "chroot", Args: append([]string{dir, "systemctl", u.verb}, u.names...)}).Run(ctx); err != nil {
			return fmt.Errorf("root file system: systemctl %s: %w", u.verb, err)
		}
	}
	if err := clampTimes(dir); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	// systemd never sets the clock to before this file's time (systemd(1), "/usr/lib/clock-epoch"): a
	// server with an empty CMOS battery boots in the year of the image, not in 1970.
	if err := writeFile(dir, "usr/lib/clock-epoch", nil, 0o644); err != nil {
		return err
	}
	if err := os.Chtimes(filepath.Join(dir, "usr/lib/clock-epoch"), built, built); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	return nil
}

// writeOverlay copies node/files.
func writeOverlay(dir string) error {
	files, err := fs.Sub(recipeFiles, "node/files")
	if err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
		return writeFile(dir, path, content, overlayMode(content))
	})
}

// overlayMode returns the mode of a file: embedding loses modes, but scripts are recognized by
// their first line.
func overlayMode(content []byte) os.FileMode {
	if bytes.HasPrefix(content, []byte("#!")) {
		return 0o755
	}
	return 0o644
}

// writeFile replaces a file below dir. It never follows a symbolic link at that path.
func writeFile(dir, path string, content []byte, mode os.FileMode) error {
	full := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	if err := os.RemoveAll(full); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	if err := os.WriteFile(full, content, mode); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	// The content of an image must not depend on the process's umask.
	if err := os.Chmod(full, mode); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	return nil
}

// writeOSRelease names the image in os-release(5).
func writeOSRelease(dir, version string) error {
	const path = "usr/lib/os-release"
	content, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	text := strings.TrimRight(string(content), "\n") + "\nIMAGE_ID=regiond-node\nIMAGE_VERSION=" + version + "\n"
	return writeFile(dir, path, []byte(text), 0o644)
}

// clampTimes sets times after sourceDate to sourceDate.
func clampTimes(dir string) error {
	limit := unix.NsecToTimespec(sourceDate * int64(time.Second))
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.ModTime().Unix() <= sourceDate {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{limit, limit}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// kernelRelease returns the name of the only folder of modules.
func kernelRelease(dir string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "usr/lib/modules"))
	if err != nil {
		return "", fmt.Errorf("kernel modules: %w", err)
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("kernel modules: the root file system has %d kernels, want one", len(entries))
	}
	return entries[0].Name(), nil
}

// groupID returns the number of a group in the root file system.
func groupID(dir, group string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, "etc/group"))
	if err != nil {
		return 0, fmt.Errorf("group %s: %w", group, err)
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) >= 3 && fields[0] == group {
			return strconv.Atoi(fields[2])
		}
	}
	return 0, fmt.Errorf("group %s is not in the image's etc/group", group)
}
