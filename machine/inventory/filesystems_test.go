package inventory_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"regiond.dev/regiond/machine/inventory"
)

// diskOf reads what the inventory says of one disk of 8 MiB with the given content.
func diskOf(t *testing.T, disk inventory.DiskReader) inventory.Disk {
	return diskOfSize(t, 8<<20, disk)
}

func diskOfSize(t *testing.T, size int64, disk inventory.DiskReader) inventory.Disk {
	t.Helper()
	r := fixture(t, "qemu-q35")
	r.Sys.(fstest.MapFS)["devices/pci0000:00/0000:00:03.0/virtio1/block/vda/size"].Data = []byte(strconv.FormatInt(size/512, 10))
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
		"NTFS":            "mkntfs -q -F -Q $D",
		"LUKS":            "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 $D /etc/debian_version",
		"GPT, ext4, vfat": `printf 'label: gpt\nstart=2048,size=4096\nstart=6144,size=4096\n' | sfdisk -q $D && mke2fs -q -t ext4 -E offset=1048576 $D 2M && mkfs.vfat --offset 6144 $D 2048`,
		"MBR, swap":       `printf 'label: dos\nstart=2048,type=82\n' | sfdisk -q $D && mkswap -q $D.p && dd if=$D.p of=$D bs=1M seek=1 conv=notrunc status=none`,
		"GPT, GPFS":       `printf 'label: gpt\nstart=2048,type=37AFFC90-EF7D-4E96-91C3-2D7AE055B174\n' | sfdisk -q $D`,
		"GPT, VMFS":       `printf 'label: gpt\nstart=2048,type=AA31E02A-400F-11DB-9590-000C2911D1B8\n' | sfdisk -q $D`,
		"MBR, VMFS":       `printf 'label: dos\nstart=2048,type=fb\n' | sfdisk -q $D`,
	} {
		path := scratch(t, 8<<20, script)
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

// scratch makes an empty file of that size, $D, and one beside it, $D.p, runs a script on them, and returns the first.
func scratch(t *testing.T, size int64, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	for _, p := range []string{path, path + ".p"} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p, size); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Env = append(os.Environ(), "D="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return path
}

// A disk whose partition table is lost keeps what its first partition holds, wherever that begins.
func TestLostPartitionTable(t *testing.T) {
	const size = 512 << 20
	starts := map[string]int64{"1 MiB": 1 << 20, "sector 63": 63 * 512, "sector 34": 34 * 512, "8 MiB": 8 << 20, "a cylinder": 16065 * 512, "64 MiB": 64 << 20}
	for _, tc := range []struct{ name, make, want string }{
		{"ext2", "mke2fs -q -t ext2 $D.p", "ext2"},
		{"ext3", "mke2fs -q -t ext3 $D.p", "ext3"},
		{"ext4", "mke2fs -q -t ext4 $D.p", "ext4"},
		{"vfat", "mkfs.vfat $D.p", "vfat"},
		{"swap", "mkswap -q $D.p", "swap"},
		{"XFS", "mkfs.xfs -q $D.p", "XFS"},
		{"btrfs", "mkfs.btrfs -q $D.p", "btrfs"},
		{"NTFS", "mkntfs -q -F -Q $D.p", "NTFS"},
		{"LUKS2", "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $D.p /etc/debian_version", "LUKS"},
		{"minix, which has no name here", "mkfs.minix -1 $D.p", "unknown data"},
	} {
		partition, err := os.Open(scratch(t, 400<<20, tc.make) + ".p")
		if err != nil {
			t.Fatal(err)
		}
		defer partition.Close()
		for place, start := range starts {
			d := diskOfSize(t, size, shifted{io.NewSectionReader(partition, 0, 400<<20), start})
			if d.Blank || d.Content != tc.want {
				t.Errorf("%s from %s on: content %q, blank %v; want %q", tc.name, place, d.Content, d.Blank, tc.want)
			}
		}
	}
}

// shifted is a disk with one partition and zeros around it.
type shifted struct {
	content *io.SectionReader
	start   int64
}

func (shifted) Close() error { return nil }
func (s shifted) ReadAt(b []byte, offset int64) (int, error) {
	clear(b)
	if end := offset + int64(len(b)); end > s.start && offset < s.start+s.content.Size() {
		at := max(offset, s.start)
		if _, err := s.content.ReadAt(b[at-offset:], at-s.start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	return len(b), nil
}

// The backup of a lost GPT leads to the partitions; logical partitions are found, too.
func TestPartitionsBeyondTheFirstSectors(t *testing.T) {
	for want, script := range map[string]string{
		"GPT, ext4": `printf 'label: gpt\nstart=65536,size=65536\n' | sfdisk -q $D && mke2fs -q -t ext4 -E offset=33554432 $D 32M && dd if=/dev/zero of=$D bs=512 count=34 conv=notrunc status=none`,
		"GPT, VMFS": `printf 'label: gpt\nstart=2048,type=AA31E02A-400F-11DB-9590-000C2911D1B8\n' | sfdisk -q $D && dd if=/dev/zero of=$D bs=512 count=34 conv=notrunc status=none`,
		"MBR, swap": `printf 'label: dos\nstart=2048,type=5\nstart=65536,size=65536,type=82\n' | sfdisk -q $D && mkswap -q $D.p && dd if=$D.p of=$D bs=1M seek=32 count=1 conv=notrunc status=none`,
	} {
		f, err := os.Open(scratch(t, 128<<20, script))
		if err != nil {
			t.Fatal(err)
		}
		if d := diskOfSize(t, 128<<20, f); d.Content != want || d.Blank {
			t.Errorf("%s: content %q, blank %v; want %q", script, d.Content, d.Blank, want)
		}
	}
}

// Whatever a disk's size, it is read a bounded number of times, and its ends and the places in between are seen.
func TestSamples(t *testing.T) {
	for _, size := range []int64{4096, 1 << 20, 5<<20 + 512, 64 << 20, 8 << 30, 480e9, 20e12, 1 << 50} {
		c := &counting{}
		if d := diskOfSize(t, size/512*512, c); !d.Blank || d.Problem != "" {
			t.Errorf("%d zeros: %+v", size, d)
		}
		if c.reads > 250 || c.bytes > 40<<20 {
			t.Errorf("%d bytes took %d reads of %d bytes in total", size, c.reads, c.bytes)
		}
	}
	const size = 480 << 30
	for _, at := range []int64{0, 511, 1 << 20, 16<<20 - 1, 128 << 20, 512 << 20, 1 << 30, size - 4<<20, size - 1} {
		if d := diskOfSize(t, size, memory{at: []byte{1}}); d.Blank || d.Content != "unknown data" {
			t.Errorf("one byte at %d: content %q, blank %v", at, d.Content, d.Blank)
		}
	}
}

type counting struct{ reads, bytes int }

func (*counting) Close() error { return nil }
func (c *counting) ReadAt(b []byte, _ int64) (int, error) {
	c.reads++
	c.bytes += len(b)
	clear(b)
	return len(b), nil
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
		"bcache":     {4120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
		"ReFS":       {3, "ReFS\x00\x00\x00\x00"},
		"Intel RAID": {size - 1024, "Intel Raid ISM Cfg Sig. "},
		"DDF RAID":   {size - 512, "\xde\x11\xde\x11"},
	} {
		if d := diskOf(t, memory{tc.offset: []byte(tc.magic)}); d.Content != name {
			t.Errorf("%s: content %q", name, d.Content)
		}
	}
	for name, offset := range map[string]int64{"second at the start": 384 << 10, "first at the end": size - 384<<10, "second at the end": size - 128<<10} {
		if d := diskOf(t, memory{offset: []byte("\x00\x00\x00\x00\x00\xba\xb1\x0c")}); d.Content != "ZFS" || d.Blank {
			t.Errorf("ZFS label, %s: content %q, blank %v", name, d.Content, d.Blank)
		}
	}
	// A VMFS whose partition table is lost, and the second header of a LUKS2 whose first one is.
	for want, disk := range map[string]memory{
		"VMFS": {2 << 20: []byte("\x0d\xd0\x01\xc0"), 3 << 20: []byte("\x5e\xf1\xab\x2f")},
		"LUKS": {16 << 10: []byte("SKUL\xba\xbe")},
	} {
		if d := diskOf(t, disk); d.Content != want {
			t.Errorf("content %q, want %s", d.Content, want)
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
