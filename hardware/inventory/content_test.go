package inventory_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"regiond.dev/regiond/hardware/inventory"
)

// diskOf reads what the inventory says of one disk of 8 MiB with the given content.
func diskOf(t *testing.T, disk inventory.DiskReader) inventory.Disk {
	t.Helper()
	r := fixture(t, "qemu-q35")
	r.OpenDisk = func(string) (inventory.DiskReader, error) { return disk, nil }
	disks, err := r.Disks()
	if err != nil || len(disks) != 1 {
		t.Fatalf("disks %+v (%v)", disks, err)
	}
	return disks[0]
}

// What the real tools write is recognised.
func TestContentByRealTools(t *testing.T) {
	for want, script := range map[string]string{
		"ext4":            "mke2fs -q -t ext4 $D",
		"ext2":            "mke2fs -q -t ext2 $D",
		"vfat":            "mkfs.vfat $D",
		"swap":            "mkswap $D",
		"GPT, ext4, vfat": `printf 'label: gpt\nstart=2048,size=4096\nstart=6144,size=4096\n' | sfdisk -q $D && mke2fs -q -t ext4 -E offset=1048576 $D 2M && mkfs.vfat --offset 6144 $D 2048`,
		"MBR, swap":       `printf 'label: dos\nstart=2048,type=82\n' | sfdisk -q $D && mkswap -q $D.p && dd if=$D.p of=$D bs=1M seek=1 conv=notrunc status=none`,
		"GPT, GPFS":       `printf 'label: gpt\nstart=2048,type=37AFFC90-EF7D-4E96-91C3-2D7AE055B174\n' | sfdisk -q $D`,
		"GPT, VMFS":       `printf 'label: gpt\nstart=2048,type=AA31E02A-400F-11DB-9590-000C2911D1B8\n' | sfdisk -q $D`,
		"MBR, VMFS":       `printf 'label: dos\nstart=2048,type=fb\n' | sfdisk -q $D`,
	} {
		path := filepath.Join(t.TempDir(), "disk")
		for _, p := range []string{path, path + ".p"} {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(p, 8<<20); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("sh", "-ec", script)
		cmd.Env = append(os.Environ(), "D="+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		d := diskOf(t, f)
		if d.Content != want || d.Blank {
			t.Errorf("%s: content %q, blank %v; want %q", script, d.Content, d.Blank, want)
		}
		if shared := d.SharedFilesystems(); len(shared) != strings.Count(want, "VMFS")+strings.Count(want, "GPFS") {
			t.Errorf("%s: shared file systems %q", script, shared)
		}
	}
}

// Superblocks that no tool at hand writes, after the sources named beside the magics.
func TestContentByMagic(t *testing.T) {
	const size, md = 8 << 20, "\xfc\x4e\x2b\xa9"
	for name, tc := range map[string]struct {
		offset int64
		magic  string
	}{
		"LVM":        {512, "LABELONE"},
		"GFS2":       {65536, "\x01\x16\x19\x70"},
		"OCFS2":      {8192, "OCFSV2"},
		"VMFS":       {1 << 20, "\x0d\xd0\x01\xc0"},
		"ZFS":        {128<<10 + 4096, "\x0c\xb1\xba\x00\x00\x00\x00\x00"},
		"btrfs":      {65600, "_BHRfS_M"},
		"Intel RAID": {size - 1024, "Intel Raid ISM Cfg Sig. "},
		"DDF RAID":   {size - 512, "\xde\x11\xde\x11"},
	} {
		if d := diskOf(t, memory{tc.offset: []byte(tc.magic)}); d.Content != name {
			t.Errorf("%s: content %q", name, d.Content)
		}
	}
	for _, offset := range []int64{0, 4096, size - 8192, size - 65536} { // metadata 1.1, 1.2, 1.0, 0.90
		if d := diskOf(t, memory{offset: []byte(md)}); d.Content != "MD RAID" || d.Blank {
			t.Errorf("MD superblock at %d: content %q, blank %v", offset, d.Content, d.Blank)
		}
	}
	if d := diskOf(t, memory{5: {1}}); d.Content != "unknown data" || d.Blank {
		t.Errorf("one byte: %+v", d)
	}
	if d := diskOf(t, memory{size - 1: {1}}); d.Content != "unknown data" || d.Blank {
		t.Errorf("last byte: %+v", d)
	}
}

func TestMarker(t *testing.T) {
	m := inventory.InstallMarker{RegionUID: "r", ServerUID: "s", Image: "trixie-1", Complete: true, Installed: "2026-11-29T15:00:00Z"}
	b, err := inventory.EncodeMarker(m)
	if err != nil || len(b) != inventory.MarkerSize {
		t.Fatalf("%d bytes (%v)", len(b), err)
	}
	d := diskOf(t, memory{inventory.MarkerOffset: b})
	if d.Marker == nil || !reflect.DeepEqual(*d.Marker, m) || d.Blank || d.Content != "an interrupted installation" {
		t.Errorf("read back %+v", d)
	}
	for name, spoil := range map[string]func([]byte) []byte{
		"magic":  func(b []byte) []byte { b[0]++; return b },
		"length": func(b []byte) []byte { b[11] = 0x7f; return b },
		"json":   func(b []byte) []byte { b[12] = '!'; return b },
		"short":  func(b []byte) []byte { return b[:8] },
		"none":   func([]byte) []byte { return nil },
	} {
		if got := inventory.DecodeMarker(spoil(append([]byte(nil), b...))); got != nil {
			t.Errorf("%s: a broken marker gave %+v", name, got)
		}
	}
	if _, err := inventory.EncodeMarker(inventory.InstallMarker{Image: strings.Repeat("x", 5000)}); err == nil {
		t.Error("a marker over 4096 bytes was accepted")
	}
}
