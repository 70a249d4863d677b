package inventory

import (
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

// Descriptions of what has no name of its own.
const (
	contentUnknown     = "unknown data"
	contentInterrupted = "an interrupted installation"
)

// SharedFilesystems names the cluster file systems found on a disk.
func (d Disk) SharedFilesystems() []string {
	var shared []string
	for _, found := range strings.Split(d.Content, ", ") {
		if slices.Contains([]string{contentVMFS, contentGPFS, contentGFS2, contentOCFS2}, found) {
			shared = append(shared, found)
		}
	}
	return shared
}

// evidence is what was read from a disk.
type evidence struct {
	// blank says that all samples were zero.
	blank   bool
	content string
	marker  *InstallMarker
}

// examine reads what lies on a disk of that size: at most some three hundred reads, whatever the size.
func examine(disk io.ReaderAt, size int64) (evidence, error) {
	first, err := firstData(disk, size)
	if err != nil {
		return evidence{}, err
	}
	if first < 0 {
		return evidence{blank: true}, nil
	}
	marker := DecodeMarker(readAt(disk, MarkerOffset, MarkerSize))
	found := contentOf(disk, size, first)
	switch {
	case len(found) > 0:
		return evidence{content: strings.Join(found, ", "), marker: marker}, nil
	case marker != nil:
		return evidence{content: contentInterrupted, marker: marker}, nil
	}
	return evidence{content: contentUnknown}, nil
}

// contentOf names the partition table and what is on the disk and in its partitions, each once. Where
// neither table nor signature is at its place, signatures are looked for where partitions usually begin,
// and where the first data was found: a lost partition table does not make a disk free.
func contentOf(disk io.ReaderAt, size, first int64) []string {
	var found []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
	}
	table, partitions := partitionsOf(disk, size)
	if table != "" {
		add(table)
	}
	add(signatures(io.NewSectionReader(disk, 0, size))...)
	if len(found) == 0 {
		for _, start := range usualStarts(first) {
			partitions = append(partitions, partition{offset: start, length: size - start})
		}
	}
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

// readAt returns what is there, which may be less than n bytes.
func readAt(r io.ReaderAt, offset, n int64) []byte {
	b := make([]byte, n)
	got, err := r.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil // A broken sector has no signature; a disk with data is never blank.
	}
	return b[:got]
}
