package inventory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
)

const mib = 1 << 20

// Shared file systems: other machines may be using the disk right now.
const (
	contentVMFS  = "VMFS"
	contentGPFS  = "GPFS"
	contentGFS2  = "GFS2"
	contentOCFS2 = "OCFS2"
)

// SharedFilesystems names the cluster file systems found on a disk. Such a disk is never written
// to, whatever was consented to: it belongs to more machines than this one.
func (d Disk) SharedFilesystems() []string {
	var shared []string
	for _, found := range strings.Split(d.Content, ", ") {
		if slices.Contains([]string{contentVMFS, contentGPFS, contentGFS2, contentOCFS2}, found) {
			shared = append(shared, found)
		}
	}
	return shared
}

// readContent fills in what lies on the disk. A disk that cannot be read is not blank.
func (r Reader) readContent(d *Disk) {
	f, err := r.OpenDisk(d.Name)
	if err != nil {
		d.Content = "unreadable: " + err.Error()
		return
	}
	// Closing a device that was only read cannot lose anything.
	defer f.Close()
	length := min(mib, d.Bytes)
	first, last := make([]byte, length), make([]byte, length)
	for _, part := range []struct {
		into   []byte
		offset int64
	}{{first, 0}, {last, d.Bytes - length}} {
		if _, err := f.ReadAt(part.into, part.offset); err != nil && !errors.Is(err, io.EOF) {
			d.Content = "unreadable: " + err.Error()
			return
		}
	}
	d.Blank = allZero(first) && allZero(last)
	if length == mib {
		d.Marker = DecodeMarker(first[MarkerOffset : MarkerOffset+MarkerSize])
	}
	found := contentOf(f, d.Bytes)
	switch {
	case len(found) > 0:
		d.Content = strings.Join(found, ", ")
	case d.Marker != nil:
		d.Content = "an interrupted installation"
	case !d.Blank:
		d.Content = "unknown data"
	}
}

func allZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 })
}

// contentOf names the partition table and what is on the disk and in its partitions, each once.
func contentOf(disk io.ReaderAt, size int64) []string {
	var found []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
	}
	table, partitions := partitionsOf(disk)
	if table != "" {
		add(table)
	}
	add(signatures(io.NewSectionReader(disk, 0, size))...)
	for _, p := range partitions {
		if p.kind != "" {
			add(p.kind)
		}
		if p.offset < size && p.length > 0 {
			add(signatures(io.NewSectionReader(disk, p.offset, min(p.length, size-p.offset)))...)
		}
	}
	return found
}

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

// partitionsOf reads a GPT (UEFI 2.10 section 5.3, at either sector size) or an MBR. Checksums do
// not matter here: a damaged table is still a sign of data.
func partitionsOf(disk io.ReaderAt) (table string, found []partition) {
	for _, sector := range []int64{512, 4096} {
		header := readAt(disk, sector, 92)
		if !bytes.HasPrefix(header, []byte("EFI PART")) {
			continue
		}
		first := int64(binary.LittleEndian.Uint64(header[72:]))
		count, size := int64(binary.LittleEndian.Uint32(header[80:])), int64(binary.LittleEndian.Uint32(header[84:]))
		if size < 128 || size > 4096 || count > 1024 || first < 0 || first > 1<<20 {
			return "GPT", nil
		}
		entries := readAt(disk, first*sector, count*size)
		for ; int64(len(entries)) >= size; entries = entries[size:] {
			if allZero(entries[:16]) {
				continue
			}
			start, end := int64(binary.LittleEndian.Uint64(entries[32:])), int64(binary.LittleEndian.Uint64(entries[40:]))
			if start < 0 || end < start || end > 1<<53 {
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
		return "GPT", found
	}
	sector := readAt(disk, 0, 512)
	if len(sector) < 512 || sector[510] != 0x55 || sector[511] != 0xAA {
		return "", nil
	}
	for e := sector[446:510]; len(e) >= 16; e = e[16:] {
		start, length := int64(binary.LittleEndian.Uint32(e[8:])), int64(binary.LittleEndian.Uint32(e[12:]))
		// The boot sector of a FAT or NTFS file system has the same signature, but code here.
		if e[0]&0x7F != 0 {
			return "", nil
		}
		if e[4] == 0 || e[4] == mbrTypeGPT || start == 0 || length == 0 {
			continue
		}
		p := partition{offset: start * 512, length: length * 512}
		if e[4] == mbrTypeVMFS {
			p.kind = contentVMFS
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return "", nil
	}
	return "MBR", found
}

// readAt returns what is there, which may be less than n bytes.
func readAt(r io.ReaderAt, offset, n int64) []byte {
	b := make([]byte, n)
	got, err := r.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil // A broken sector has no signature; Blank is decided elsewhere.
	}
	return b[:got]
}
