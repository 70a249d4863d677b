package installer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"regiond.dev/regiond/hardware/inventory"
	"regiond.dev/regiond/images/diskimage"
)

// writers fetch, check, unpack and write chunks at the same time. Each holds at most one chunk, packed and
// unpacked, so that installing needs less than 64 MiB of memory.
const writers = 4

// erasable is what wipe does to a disk.
type erasable interface {
	Zero(ctx context.Context, offset, length int64) error
	Discard(ctx context.Context, offset, length int64)
	Sync() error
	RereadPartitions() error
}

// wipe removes what could bring earlier content of the disk back to life: partition tables, boot code and
// the superblocks of RAID and volume managers at both ends. The marker in between stays. Both ends are zero, on the
// medium, before anything that may take its time: whoever cuts the power meanwhile does not bring the old system back.
func wipe(ctx context.Context, d erasable, size int64) error {
	if err := d.Zero(ctx, 0, inventory.MarkerOffset); err != nil {
		return err
	}
	// The last MiB may not be a whole one of the disk's grid: zero from there to the very end.
	tail := size/diskimage.SectorSize*diskimage.SectorSize - diskimage.MiB
	if err := d.Zero(ctx, tail, diskimage.MiB); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	if err := d.RereadPartitions(); err != nil {
		return err
	}
	d.Discard(ctx, diskimage.MiB, size/diskimage.MiB*diskimage.MiB-2*diskimage.MiB)
	return nil
}

// zeroGaps writes the zeros that the image leaves out, and the beginning of root-b, where an older
// file system might show through.
func zeroGaps(ctx context.Context, d *Disk, m *diskimage.Manifest, parts []diskimage.Part) error {
	for _, part := range parts {
		gaps := []diskimage.Range{{Offset: 0, Length: diskimage.MiB}}
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
	diskimage.Chunk
	label  string
	offset int64
}

// writeChunks writes all chunks of the image to their partitions. written counts plain bytes.
func writeChunks(ctx context.Context, d *Disk, m *diskimage.Manifest, parts []diskimage.Part, f *fetcher, written *atomic.Int64) error {
	var all []chunkAt
	for i := range m.Partitions {
		p := &m.Partitions[i]
		part, err := diskimage.FindPart(parts, p.Label)
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
	for range writers {
		group.Go(func() {
			if err := writeFrom(ctx, next, d, f, written); err != nil {
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

func writeFrom(ctx context.Context, next <-chan chunkAt, d *Disk, f *fetcher, written *atomic.Int64) error {
	decoder, err := diskimage.NewDecoder()
	if err != nil {
		return err
	}
	defer decoder.Close()
	var buffer, plain []byte
	for c := range next {
		if plain, buffer, err = f.fetch(ctx, c.Chunk, decoder, buffer); err != nil {
			return fmt.Errorf("partition %s at %d: %w", c.label, c.Offset, err)
		}
		if _, err := d.WriteAt(plain, c.offset); err != nil {
			return fmt.Errorf("partition %s at %d: %w", c.label, c.Offset, err)
		}
		written.Add(int64(len(plain)))
	}
	return nil
}
