package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/hardware/installer/modules"
)

const (
	modulesDir = "/modules"
	efivarfs   = "/sys/firmware/efi/efivars"
)

// mountKernelFilesystems mounts what the kernel offers, and makes a kernel or init that dies
// restart the machine instead of stopping it for ever.
func mountKernelFilesystems() error {
	var errs []error
	for _, m := range []struct {
		filesystem, dir, data string
		flags                 uintptr
	}{
		{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID},
		{"tmpfs", "/run", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		errs = append(errs, mount(m.filesystem, m.dir, m.flags, m.data))
	}
	if err := os.WriteFile("/proc/sys/kernel/panic", []byte("10"), 0); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mount is idempotent: the kernel mounts /dev by itself with CONFIG_DEVTMPFS_MOUNT on some roots.
func mount(filesystem, dir string, flags uintptr, data string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(filesystem, dir, filesystem, flags, data); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount %s on %s: %w", filesystem, dir, err)
	}
	return nil
}

// loadModules loads drivers and mounts what needs one. Whatever fails shows later by what is
// missing.
func loadModules(log *slog.Logger) {
	began := time.Now()
	set, err := modules.Read(os.DirFS(modulesDir))
	loaded := 0
	if err == nil {
		loaded, err = set.Load(os.DirFS("/sys"), func(file string) error { return modules.Insert(filepath.Join(modulesDir, file)) })
	}
	if err != nil {
		log.Warn("not all kernel modules were loaded", slog.Any("error", err))
	}
	log.Info("kernel modules loaded", slog.Int("count", loaded), slog.Duration("took", time.Since(began).Round(time.Millisecond)))
	if _, err := os.Stat(efivarfs); err == nil {
		if err := mount("efivarfs", efivarfs, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			log.Warn("no EFI variables", slog.Any("error", err))
		}
	}
}

// restart does not return.
func restart(log *slog.Logger, delay time.Duration) {
	time.Sleep(delay)
	unix.Sync()
	log.Info("restarting the machine")
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	// When PID 1 ends, the kernel panics and restarts the machine by kernel.panic.
	log.Error("the machine did not restart", slog.Any("error", err))
	os.Exit(1)
}

func powerOff(log *slog.Logger) error {
	unix.Sync()
	log.Info("powering off")
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
