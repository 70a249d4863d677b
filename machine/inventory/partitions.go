package inventory

import (
	"bytes"
	"encoding/binary"
	"io"
)

// partition found in a table.
type partition struct {
	offset, length int64
	// kind is the file system, when the partition's type alone tells.
	kind string
}

// Partition types that tell of a shared file system that has no magic number of its own at its
// start: those that Ironic's agent knows, too.
const (
	gptTypeGPFS = "\x90\xfc\xaf\x37\x7d\xef\x96\x4e\x91\xc3\x2d\x7a\xe0\x55\xb1\x74" // 37AFFC90-EF7D-4E96-91C3-2D7AE055B174
	gptTypeVMFS = "\x2a\xe0\x31\xaa\x0f\x40\xdb\x11\x95\x90\x00\x0c\x29\x11\xd1\xb8" // AA31E02A-400F-11DB-9590-000C2911D1B8
	mbrTypeVMFS = 0xFB
	mbrTypeGPT  = 0xEE
)

// partitionsOf reads a GPT (UEFI 2.10 section 5.3, at either sector size), its backup in the last sector when the
// first one is lost, or an MBR. Checksums do not matter here: a damaged table is still a sign of data.
func partitionsOf(disk io.ReaderAt, size int64) (table string, found []partition) {
	for _, sector := range []int64{512, 4096} {
		for _, header := range []int64{sector, size - sector} {
			if partitions, ok := readGPT(disk, header, sector); ok {
				return "GPT", partitions
			}
		}
	}
	return readMBR(disk)
}

// readGPT reads the table whose header is at that offset. Any header makes it a GPT, even without a usable entry.
func readGPT(disk io.ReaderAt, at, sector int64) (found []partition, ok bool) {
	header := readAt(disk, at, 92)
	if len(header) < 92 || !bytes.HasPrefix(header, []byte("EFI PART")) {
		return nil, false
	}
	first := int64(binary.LittleEndian.Uint64(header[72:]))
	count, size := int64(binary.LittleEndian.Uint32(header[80:])), int64(binary.LittleEndian.Uint32(header[84:]))
	if size < 128 || size > 4096 || count > 1024 || first < 0 || first > 1<<53/sector {
		return nil, true
	}
	entries := readAt(disk, first*sector, count*size)
	for ; int64(len(entries)) >= size; entries = entries[size:] {
		if allZero(entries[:16]) {
			continue
		}
		start, end := int64(binary.LittleEndian.Uint64(entries[32:])), int64(binary.LittleEndian.Uint64(entries[40:]))
		if start < 0 || end < start || end > 1<<53/sector {
			continue
		}
		p := partition{offset: start * sector, length: (end - start + 1) * sector}
		switch string(entries[:16]) {
		case gptTypeGPFS:
			p.kind = contentGPFS
		case gptTypeVMFS:
			p.kind = contentVMFS
		}
		found = append(found, p)
	}
	return found, true
}

// maxLogical bounds the chain of logical partitions, which a damaged disk may make endless.
const maxLogical = 64

// readMBR reads the primary partitions of a master boot record, and the logical ones in its extended partition.
func readMBR(disk io.ReaderAt) (table string, found []partition) {
	sector := readAt(disk, 0, 512)
	if len(sector) < 512 || sector[510] != 0x55 || sector[511] != 0xAA {
		return "", nil
	}
	var extended int64
	for e := sector[446:510]; len(e) >= 16; e = e[16:] {
		// The boot sector of a FAT or NTFS file system has the same signature, but code here.
		if e[0]&0x7F != 0 {
			return "", nil
		}
		p, ok := mbrEntry(e)
		switch {
		case !ok:
		case isExtended(e[4]):
			extended = p.offset
			found = append(found, p)
		default:
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	// Each extended boot record has a logical partition, relative to itself, and the next record, relative to the first.
	for record, n := extended, 0; record > 0 && n < maxLogical; n++ {
		sector := readAt(disk, record, 512)
		if len(sector) < 512 || sector[510] != 0x55 || sector[511] != 0xAA {
			break
		}
		if p, ok := mbrEntry(sector[446:462]); ok {
			p.offset += record
			found = append(found, p)
		}
		next, ok := mbrEntry(sector[462:478])
		if !ok {
			break
		}
		record = extended + next.offset
	}
	return "MBR", found
}

// mbrEntry reads one of the four entries of a boot record. A protective entry of a GPT does not count.
func mbrEntry(e []byte) (partition, bool) {
	start, length := int64(binary.LittleEndian.Uint32(e[8:])), int64(binary.LittleEndian.Uint32(e[12:]))
	if e[4] == 0 || e[4] == mbrTypeGPT || start == 0 || length == 0 {
		return partition{}, false
	}
	p := partition{offset: start * sectorBytes, length: length * sectorBytes}
	if e[4] == mbrTypeVMFS {
		p.kind = contentVMFS
	}
	return p, true
}

// isExtended knows the types of extended partitions: MS-DOS, Windows 95 (LBA), Linux.
func isExtended(kind byte) bool { return kind == 0x05 || kind == 0x0F || kind == 0x85 }
