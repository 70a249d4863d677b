package inventory

import (
	"encoding/binary"
	"io"
)

// magics at fixed offsets from the start of a disk or partition, as in util-linux's libblkid. A name
// may stand here several times with different offsets.
var magics = []struct {
	name   string
	offset int64
	magic  string
}{
	{"XFS", 0, "XFSB"},
	{"LUKS", 0, "LUKS\xba\xbe"},
	{"squashfs", 0, "hsqs"},
	{"Ceph BlueStore", 0, "bluestore block device"},
	{"OCFS", 0, "OracleCFS"},
	{"NTFS", 3, "NTFS    "}, {"exFAT", 3, "EXFAT   "}, {"ReFS", 3, "ReFS\x00\x00\x00\x00"}, {"BitLocker", 3, "-FVE-FS-"},
	{"APFS", 32, "NXSB"},
	{"vfat", 54, "FAT12   "}, {"vfat", 54, "FAT16   "}, {"vfat", 82, "FAT32   "},
	{"HFS+", 1024, "H+\x00\x04"}, {"HFS+", 1024, "HX\x00\x05"},
	{"F2FS", 1024, "\x10\x20\xf5\xf2"}, {"EROFS", 1024, "\xe2\xe1\xf5\xe0"},
	{contentOCFS2, 1024, "OCFSV2"}, {contentOCFS2, 2048, "OCFSV2"}, {contentOCFS2, 4096, "OCFSV2"}, {contentOCFS2, 8192, "OCFSV2"},
	{"LVM", 0, "LABELONE"}, {"LVM", 512, "LABELONE"}, {"LVM", 1024, "LABELONE"}, {"LVM", 1536, "LABELONE"},
	{"MD RAID", 0, mdMagic}, {"MD RAID", 4096, mdMagic},
	{"swap", 4086, "SWAPSPACE2"}, {"swap", 4086, "SWAP-SPACE"},
	{"bcache", 4120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{"bcachefs", 4120, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"},
	{"JFS", 32768, "JFS1"},
	{"ISO 9660", 32769, "CD001"}, {"UDF", 32769, "BEA01"},
	{contentGFS2, 65536, "\x01\x16\x19\x70"},
	{"btrfs", 65600, btrfsMagic}, {"btrfs", 64<<20 + 64, btrfsMagic}, // the second is its first copy
	{contentVMFS, 1 << 20, "\x0d\xd0\x01\xc0"}, {contentVMFS, 2 << 20, "\x5e\xf1\xab\x2f"},
	// The second header of LUKS2 lies behind the first one, which has one of these sizes (LUKS2 On-Disk Format
	// Specification, section 2.1).
	{"LUKS", 16 << 10, luks2Second}, {"LUKS", 32 << 10, luks2Second}, {"LUKS", 64 << 10, luks2Second}, {"LUKS", 128 << 10, luks2Second},
	{"LUKS", 256 << 10, luks2Second}, {"LUKS", 512 << 10, luks2Second}, {"LUKS", 1 << 20, luks2Second}, {"LUKS", 2 << 20, luks2Second}, {"LUKS", 4 << 20, luks2Second},
}

const (
	mdMagic     = "\xfc\x4e\x2b\xa9"
	mdMagicBig  = "\xa9\x2b\x4e\xfc" // metadata 0.90 of a big-endian machine
	btrfsMagic  = "_BHRfS_M"
	luks2Second = "SKUL\xba\xbe"
)

// headOfVolume is how much of a volume is read at once: almost all magics are in it.
const headOfVolume = 512 << 10

// signatures names the file systems, RAID and volume manager members found in one volume.
func signatures(volume *io.SectionReader) []string {
	size := volume.Size()
	head := readAt(volume, 0, min(size, headOfVolume))
	var found []string
	add := func(name string) {
		if len(found) == 0 || found[len(found)-1] != name {
			found = append(found, name)
		}
	}
	for _, m := range magics {
		end := m.offset + int64(len(m.magic))
		if end <= int64(len(head)) && string(head[m.offset:end]) == m.magic ||
			end > int64(len(head)) && string(readAt(volume, m.offset, int64(len(m.magic)))) == m.magic {
			add(m.name)
		}
	}
	if name := extVersion(head); name != "" {
		add(name)
	}
	if hasZFSLabel(volume) {
		add("ZFS")
	}
	for _, name := range tailSignatures(volume) {
		add(name)
	}
	return found
}

// extVersion looks at the superblock at 1024 (Linux Documentation/filesystems/ext4/super.rst): its magic
// number at 0x38, features at 0x5C (compatible) and 0x60 (incompatible).
func extVersion(head []byte) string {
	if len(head) < 2048 || binary.LittleEndian.Uint16(head[1024+0x38:]) != 0xEF53 {
		return ""
	}
	const hasJournal, extents = 0x4, 0x40
	switch {
	case binary.LittleEndian.Uint32(head[1024+0x60:])&extents != 0:
		return "ext4"
	case binary.LittleEndian.Uint32(head[1024+0x5C:])&hasJournal != 0:
		return "ext3"
	default:
		return "ext2"
	}
}

// hasZFSLabel looks for an uberblock (magic 0x00bab10c in either byte order) in the ring in the second half of
// each of the four labels of 256 KiB: two at the start and two at the end (OpenZFS, module/zfs/vdev_label.c).
func hasZFSLabel(volume *io.SectionReader) bool {
	const label = 256 << 10
	size := volume.Size() / label * label
	for _, at := range []int64{0, label, size - 2*label, size - label} {
		if at < 0 {
			continue
		}
		ring := readAt(volume, at+label/2, label/2)
		for ; len(ring) >= 1024; ring = ring[1024:] {
			if binary.LittleEndian.Uint64(ring) == 0x00bab10c || binary.BigEndian.Uint64(ring) == 0x00bab10c {
				return true
			}
		}
	}
	return false
}

// tailSignatures are those of RAID members that keep their superblock at the end: Linux MD 1.0 and 0.90
// (drivers/md/md.c, super_1_load and MD_NEW_SIZE_SECTORS), SNIA DDF and Intel's IMSM.
func tailSignatures(volume *io.SectionReader) []string {
	size := volume.Size() / 512 * 512
	if size < 256<<10 {
		return nil
	}
	at := func(offset int64, magics ...string) bool {
		for _, magic := range magics {
			if string(readAt(volume, offset, int64(len(magic)))) == magic {
				return true
			}
		}
		return false
	}
	var found []string
	if at((size-8<<10)&^4095, mdMagic) || at(size&^(64<<10-1)-64<<10, mdMagic, mdMagicBig) {
		found = append(found, "MD RAID")
	}
	if at(size-512, "\xde\x11\xde\x11") {
		found = append(found, "DDF RAID")
	}
	if at(size-1024, "Intel Raid ISM Cfg Sig. ") {
		found = append(found, "Intel RAID")
	}
	return found
}
