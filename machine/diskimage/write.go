package diskimage

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Writers fetch, check, unpack and write chunks at the same time. Each holds at most one chunk, packed and
// unpacked, so that installing needs less than 64 MiB of memory.
const Writers = 4

// erasable is what Wipe does to a disk.
type erasable interface {
	Zero(ctx context.Context, offset, length int64) error
	Discard(ctx context.Context, offset, length int64)
	Sync() error
	RereadPartitions() error
}

// Wipe removes what could bring earlier content of the disk back to life: partition tables, boot code and
// the superblocks of RAID and volume managers at both ends. What is to be kept lies in the first MiB. Both ends are zero, on the
// medium, before anything that may take its time: whoever cuts the power meanwhile does not bring the old system back.
func Wipe(ctx context.Context, d erasable, size int64, keep Range) error {
	if err := d.Zero(ctx, 0, keep.Offset); err != nil {
		return err
	}
	if end := keep.Offset + keep.Length; end < MiB {
		if err := d.Zero(ctx, end, MiB-end); err != nil {
			return err
		}
	}
	// The last MiB may not be a whole one of the disk's grid: zero from there to the very end.
	tail := size/SectorSize*SectorSize - MiB
	if err := d.Zero(ctx, tail, MiB); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	if err := d.RereadPartitions(); err != nil {
		return err
	}
	d.Discard(ctx, MiB, size/MiB*MiB-2*MiB)
	return nil
}

// ZeroGaps writes the zeros that the image leaves out, and the beginning of root-b, where an older
// file system might show through.
func ZeroGaps(ctx context.Context, d *Disk, m *Manifest, parts []Part) error {
	for _, part := range parts {
		gaps := []Range{{Offset: 0, Length: MiB}}
		if p := m.Partition(part.Label); p != nil {
			gaps = p.Gaps()
		}
		for _, gap := range gaps {
			if err := d.Zero(ctx, part.Offset()+gap.Offset, gap.Length); err != nil {
				return fmt.Errorf("partition %s: %w", part.Label, err)
			}
		}
	}
	return nil
}

// chunkAt is a chunk and its place on the disk.
type chunkAt struct {
	Chunk
	label  string
	offset int64
}

// WriteChunks writes all chunks of the image to their partitions. written counts plain bytes.
func WriteChunks(ctx context.Context, w io.WriterAt, m *Manifest, parts []Part, f *Fetcher, written *atomic.Int64) error {
	var all []chunkAt
	for i := range m.Partitions {
		p := &m.Partitions[i]
		part, err := FindPart(parts, p.Label)
		if err != nil {
			return err
		}
		for _, c := range p.Chunks {
			all = append(all, chunkAt{c, p.Label, part.Offset() + c.Offset})
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan chunkAt)
	var group sync.WaitGroup
	for range Writers {
		group.Go(func() {
			if err := writeFrom(ctx, next, w, f, written); err != nil {
				cancel(err)
			}
		})
	}
feed:
	for _, c := range all {
		select {
		case next <- c:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

func writeFrom(ctx context.Context, next <-chan chunkAt, w io.WriterAt, f *Fetcher, written *atomic.Int64) error {
	decoder, err := NewDecoder()
	if err != nil {
		return err
	}
	defer decoder.Close()
	var buffer, plain []byte
	for c := range next {
		if plain, buffer, err = f.fetch(ctx, c.Chunk, decoder, buffer); err != nil {
			return fmt.Errorf("partition %s at %d: %w", c.label, c.Offset, err)
		}
		if _, err := w.WriteAt(plain, c.offset); err != nil {
			return fmt.Errorf("partition %s at %d: %w", c.label, c.Offset, err)
		}
		written.Add(int64(len(plain)))
	}
	return nil
}
