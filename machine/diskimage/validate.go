package diskimage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// MiB is the grain of everything: partition sizes, their alignment and the runs of zeros left out.
const MiB = 1 << 20

// maxBootCode is the room before the disk signature in the first sector (UEFI 2.10, table 5-1).
const maxBootCode = 440

// maxCompressed bounds the compressed size of a chunk: zstd adds at most a few hundred bytes to
// what does not compress, and a reader must not be made to hold more than that.
const maxCompressed = ChunkSize + 64<<10

// contentLabels are the partitions that have content, in disk order, and whether they must exist.
var contentLabels = []struct {
	label    string
	required bool
}{
	{LabelBIOS, false}, {LabelESP, true}, {LabelRootA, true}, {LabelData, true},
}

// Validate reports everything that is wrong with a manifest, so that neither a builder's mistake
// nor a broken file leads to writes outside a partition or to paths outside the chunk folder.
func (m *Manifest) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("image manifest: "+format, args...)) }
	if m.Version == "" {
		fail("version is empty; it names the image's folder")
	}
	if len(m.MBR) > maxBootCode {
		fail("mbr has %d bytes; boot code has room for %d", len(m.MBR), maxBootCode)
	}
	position := 0
	for i := range m.Partitions {
		p := &m.Partitions[i]
		at := slices.IndexFunc(contentLabels[position:], func(c struct {
			label    string
			required bool
		}) bool {
			return c.label == p.Label
		})
		if at < 0 {
			fail("partitions[%d]: label %q is unknown, repeated or out of order; want bios, esp, root-a, data", i, p.Label)
		} else {
			position += at + 1
		}
		if err := p.validate(); err != nil {
			errs = append(errs, fmt.Errorf("image manifest: partitions[%d] (%s): %w", i, p.Label, err))
		}
	}
	for _, c := range contentLabels {
		if c.required && m.Partition(c.label) == nil {
			fail("partition %q is missing", c.label)
		}
	}
	if len(m.MBR) > 0 && m.Partition(LabelBIOS) == nil {
		fail("there is boot code in mbr, but no %q partition that it could load", LabelBIOS)
	}
	if p := m.Partition(LabelBIOS); p != nil && p.Size != MiB {
		fail("partition %q has %d bytes; it has to have exactly %d, because the boot code knows where it lies", LabelBIOS, p.Size, MiB)
	}
	return errors.Join(errs...)
}

func (p *Partition) validate() error {
	if p.Size <= 0 || p.Size%MiB != 0 {
		return fmt.Errorf("size %d is not a positive multiple of 1 MiB", p.Size)
	}
	var end int64
	for i, c := range p.Chunks {
		switch {
		case c.Length <= 0 || c.Length > ChunkSize:
			return fmt.Errorf("chunks[%d]: length %d is not within 1..%d", i, c.Length, ChunkSize)
		case c.Offset < end:
			return fmt.Errorf("chunks[%d]: offset %d lies before the end of the chunk before it, %d", i, c.Offset, end)
		case c.Offset > p.Size-c.Length:
			return fmt.Errorf("chunks[%d]: ends at %d, beyond the partition's %d bytes", i, c.Offset+c.Length, p.Size)
		case c.Compressed <= 0 || c.Compressed > maxCompressed:
			return fmt.Errorf("chunks[%d]: compressed size %d is not within 1..%d", i, c.Compressed, maxCompressed)
		case !isSHA256(c.SHA256):
			return fmt.Errorf("chunks[%d]: sha256 %q is not 64 lower-case hex digits", i, c.SHA256)
		}
		end = c.Offset + c.Length
	}
	return nil
}

func isSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	b, err := hex.DecodeString(s)
	return err == nil && hex.EncodeToString(b) == s
}

// Partition returns the partition of that label, or nil.
func (m *Manifest) Partition(label string) *Partition {
	for i := range m.Partitions {
		if m.Partitions[i].Label == label {
			return &m.Partitions[i]
		}
	}
	return nil
}

// Bytes is the sum of the plain bytes of all chunks, what an installation writes.
func (m *Manifest) Bytes() int64 {
	var n int64
	for _, p := range m.Partitions {
		for _, c := range p.Chunks {
			n += c.Length
		}
	}
	return n
}

// Range is a run of bytes in a partition.
type Range struct{ Offset, Length int64 }

// Gaps are the ranges of the partition that no chunk covers. They hold zeros in the image, and file
// systems rely on that (ext4 with an uninitialised inode table for one): whoever writes the image
// to a disk that has been used before has to write the zeros too.
func (p *Partition) Gaps() []Range {
	var gaps []Range
	var end int64
	for _, c := range p.Chunks {
		if c.Offset > end {
			gaps = append(gaps, Range{end, c.Offset - end})
		}
		end = c.Offset + c.Length
	}
	if end < p.Size {
		gaps = append(gaps, Range{end, p.Size - end})
	}
	return gaps
}
