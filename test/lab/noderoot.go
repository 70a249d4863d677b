package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	hostidentity "regiond.dev/regiond/machine/identity"
)

// stateFolders is tmpfiles.d(5) of the image.
const stateFolders = "/etc/tmpfiles.d/regiond-state.conf"

// devices of a node. Some are there only if this machine has them.
var devices = []struct {
	name     string
	optional bool
}{{"null", false}, {"zero", false}, {"full", false}, {"random", false}, {"urandom", false}, {"tty", false}, {"net/tun", false}, {"kvm", true}}

// EnterNode makes a node's root file system that of this process, the first of its PID and mount
// namespaces. What it mounts is seen by nobody else and ends with the node. The caller goes on as
// process 1: see package nodeinit.
func (l Lab) EnterNode(name string) error {
	i, err := l.index(name)
	if err != nil {
		return err
	}
	dir := l.machineDir(name)
	image, err := os.Readlink(filepath.Join(dir, nodeImage))
	if err != nil {
		return err
	}
	root := filepath.Join(dir, nodeRoot)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", image, filepath.Join(dir, nodeUpper), filepath.Join(dir, nodeWork))
	steps := []mount{
		{"overlay", root, "overlay", 0, layers},
		{"proc", root + "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", root + "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", root + "/dev", "tmpfs", unix.MS_NOSUID, "mode=755"},
		{"devpts", root + "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"}, // gid of tty in Debian
		{"tmpfs", root + "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"mqueue", root + "/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", root + "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmpfs", root + "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{filepath.Join(dir, nodeData), filepath.Join(root, hostidentity.MountPoint), "", unix.MS_BIND, ""},
	}
	for _, m := range steps {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := makeDevices(root + "/dev"); err != nil {
		return err
	}
	if err := nameNode(root, name, l.machineUUID(i)); err != nil {
		return err
	}
	// The old root is stacked on the new one and taken away (pivot_root(2), "pivot_root(".", ".")").
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root %s: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// Folders of services' state, which systemd makes at a server's boot. The image may have none.
	if _, err := os.Stat(stateFolders); err == nil {
		if out, err := exec.Command("/usr/bin/systemd-tmpfiles", "--create", stateFolders).CombinedOutput(); err != nil {
			return fmt.Errorf("systemd-tmpfiles: %w: %s", err, out)
		}
	}
	return nil
}

// nameNode gives a node the names that firmware and installer give a server.
func nameNode(root, name, id string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	machineID := strings.ReplaceAll(id, "-", "") // machine-id(5)
	files := []struct {
		path, content string
		mode          os.FileMode
	}{
		{"etc/hostname", name + "\n", 0o644},
		{"etc/hosts", "127.0.0.1 localhost\n127.0.1.1 " + name + "\n", 0o644},
		{"etc/machine-id", machineID + "\n", 0o444},
		{"run/product_uuid", id + "\n", 0o400},
	}
	for _, f := range files {
		file := filepath.Join(root, f.path)
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // a link that leads elsewhere
			return err
		}
		if err := os.WriteFile(file, []byte(f.content), f.mode); err != nil {
			return err
		}
	}
	// SMBIOS is this machine's, and would be the same for all nodes.
	smbios := filepath.Join(root, "sys/devices/virtual/dmi/id/product_uuid")
	if _, err := os.Stat(smbios); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unix.Mount(filepath.Join(root, "run/product_uuid"), smbios, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("system UUID: %w", err)
	}
	return nil
}

// makeDevices shows a node those of this machine's devices that it needs.
func makeDevices(dev string) error {
	for _, d := range devices {
		from, to := filepath.Join("/dev", d.name), filepath.Join(dev, d.name)
		if _, err := os.Stat(from); err != nil {
			if d.optional && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("device %s: %w", d.name, err)
		}
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}
