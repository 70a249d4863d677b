package installer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"regiond.dev/regiond/hardware/inventory"
	"regiond.dev/regiond/images/diskimage"
)

// calls of a disk, in order.
type calls []string

func (c *calls) Zero(_ context.Context, offset, length int64) error {
	*c = append(*c, fmt.Sprintf("zero %d+%d", offset, length))
	return nil
}

func (c *calls) Discard(_ context.Context, offset, length int64) {
	*c = append(*c, fmt.Sprintf("discard %d+%d", offset, length))
}
func (c *calls) Sync() error             { *c = append(*c, "sync"); return nil }
func (c *calls) RereadPartitions() error { *c = append(*c, "reread"); return nil }

// The old tables are gone from the medium before the discard, which takes up to 20 s, begins. The marker stays.
func TestWipeZeroesBothEndsFirst(t *testing.T) {
	const size = 100*diskimage.MiB + 7*diskimage.SectorSize
	var got calls
	if err := wipe(t.Context(), &got, size); err != nil {
		t.Fatal(err)
	}
	want := calls{
		fmt.Sprintf("zero 0+%d", inventory.MarkerOffset), fmt.Sprintf("zero %d+%d", size-diskimage.MiB, diskimage.MiB), "sync", "reread",
		fmt.Sprintf("discard %d+%d", diskimage.MiB, 98*diskimage.MiB),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
