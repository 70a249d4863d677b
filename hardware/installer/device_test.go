package installer_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/hardware/installer"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/inventory"
)

// loopDevice is a real block device of the kernel over a file full of somebody's data; its kernel name.
func loopDevice(t *testing.T, size int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes a loop device: run it as root")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, bytes.Repeat([]byte{0xA5}, int(size)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--partscan", file).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v\n%s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v\n%s", err, out)
		}
	})
	return filepath.Base(device)
}

func openDisk(t *testing.T, name string) *diskimage.Disk {
	t.Helper()
	d, err := diskimage.OpenDisk("/dev/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What the fakes leave out: a block device is zeroed, partitioned, read again and mounted, and refuses itself while
// it is in use.
func TestBlockDevice(t *testing.T) {
	const size = 64 * mib
	name := loopDevice(t, size)
	d := openDisk(t, name)
	if err := d.Zero(t.Context(), 0, 8*mib); err != nil {
		t.Fatal(err)
	}
	d.Discard(t.Context(), 16*mib, 8*mib)
	marker, err := inventory.EncodeMarker(inventory.InstallMarker{ServerUID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteAt(marker, inventory.MarkerOffset); err != nil {
		t.Fatal(err)
	}
	m := &diskimage.Manifest{Partitions: []diskimage.Partition{{Label: "esp", Size: 4 * mib}, {Label: "root-a", Size: 4 * mib}, {Label: "data", Size: 4 * mib}}}
	parts, err := diskimage.Layout(m, size)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile("/dev/"+name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := diskimage.WriteTable(f, size, parts, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.RereadPartitions(); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 2*mib)
	if _, err := f.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	if !diskimage.AllZero(head[mib:]) || inventory.DecodeMarker(head[inventory.MarkerOffset:mib]) == nil {
		t.Error("range is not zero, or the marker is not there")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	// The kernel may be built without GPT, as in some build machines: util-linux tells it of the partitions then, and
	// finds them there otherwise.
	if out, err := exec.Command("partx", "--update", "/dev/"+name).CombinedOutput(); err != nil {
		t.Fatalf("partx: %v\n%s", err, out)
	}
	data := parts[len(parts)-1]
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "/dev/"+name+"p4").CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}
	local := installer.NewLocal(t.Context(), "")
	dir, unmount, err := local.Mount(name, data, "ext4")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("kept"), 0o600); err != nil {
		t.Error(err)
	}
	if _, err := local.OpenDisk(name); err == nil || !strings.Contains(err.Error(), "something uses it") {
		t.Errorf("a disk with a mounted file system was opened: %v", err)
	}
	if err := unmount(); err != nil {
		t.Fatal(err)
	}
	again, unmount, err := local.Mount(name, data, "ext4")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(again, "x")); err != nil || string(b) != "kept" {
		t.Errorf("file after the second mount: %q (%v)", b, err)
	}
	if err := unmount(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := local.Mount(name, data, "vfat"); err == nil || !strings.Contains(err.Error(), "(data) as vfat") {
		t.Errorf("wrong file system: %v", err)
	}
	if holders, err := local.Holders(name); err != nil || len(holders) != 0 {
		t.Errorf("holders %q (%v)", holders, err)
	}
	if err := openDisk(t, name).Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenDiskErrors(t *testing.T) {
	if _, err := diskimage.OpenDisk("/dev/no-such-disk"); err == nil {
		t.Error("a disk that is not there was opened")
	}
}
