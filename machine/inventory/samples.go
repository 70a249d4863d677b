package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// How a disk is sampled. The head, where all usual first partitions begin, and the tail, where RAID
// metadata and backup tables lie, are read whole; in between, samples are taken at multiples of 1 MiB, to
// which partitioning tools have aligned partitions since 2009: densely in the first GiB, where the superblock
// copies of a file system are, and evenly over the rest.
const (
	headLength   = 16 * mib
	tailLength   = 4 * mib
	sampleLength = 64 << 10
	nearStep     = 16 * mib
	nearLength   = 1 << 30
	farSamples   = 128
)

// span is a run of bytes of a disk.
type span struct{ offset, length int64 }

// samples are the spans to read of a disk of that size, in ascending order.
func samples(size int64) []span {
	var spans []span
	end := int64(0)
	add := func(offset, length int64) {
		if offset = max(offset, end); offset < size && length > 0 {
			end = min(offset+length, size)
			spans = append(spans, span{offset, end - offset})
		}
	}
	for at := int64(0); at < headLength; at += mib {
		add(at, mib)
	}
	tail := max(size-tailLength, 0)
	for at := int64(headLength); at < min(nearLength, tail); at += nearStep {
		add(at, sampleLength)
	}
	if step := (tail - nearLength) / farSamples / mib * mib; step > 0 {
		for at := int64(nearLength); at < tail; at += step {
			add(at, sampleLength)
		}
	}
	for at := tail; at < size; at += mib {
		add(at, mib)
	}
	return spans
}

var zeros [mib]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// firstData returns the offset of the first sample that is not all zeros, or -1.
func firstData(disk io.ReaderAt, size int64) (int64, error) {
	buffer := make([]byte, mib)
	for _, s := range samples(size) {
		b := buffer[:s.length]
		n, err := disk.ReadAt(b, s.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read at byte %d: %w", s.offset, err)
		}
		if !allZero(b[:n]) {
			return s.offset, nil
		}
	}
	return -1, nil
}

// usualStarts are where the first partition of a disk usually begins, and where the first data was found:
// sector 34 (right behind a GPT), 40 (macOS, and a GPT in sectors of 4096 bytes with 6), 63 (MS-DOS), 64 and 128 KiB,
// every MiB of the head (1 MiB almost everywhere), and 16065 sectors (a cylinder).
func usualStarts(first int64) []int64 {
	starts := []int64{34 * sectorBytes, 40 * sectorBytes, 6 * 4096, 63 * sectorBytes, 64 << 10, 128 << 10}
	for at := int64(mib); at < headLength; at += mib {
		starts = append(starts, at)
	}
	starts = append(starts, 16065*sectorBytes)
	if first >= headLength {
		starts = append(starts, first)
	}
	return starts
}
