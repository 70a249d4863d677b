package diskimage

import (
	"context"
	"fmt"
	"slices"
	"testing"
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

// The old tables are gone from the medium before the discard, which takes up to 20 s, begins. What is kept stays.
func TestWipeZeroesBothEndsFirst(t *testing.T) {
	const size = 100*MiB + 7*SectorSize
	var got calls
	if err := Wipe(t.Context(), &got, size, Range{Offset: MiB - 8192, Length: 4096}); err != nil {
		t.Fatal(err)
	}
	want := calls{
		fmt.Sprintf("zero 0+%d", MiB-8192), fmt.Sprintf("zero %d+4096", MiB-4096), fmt.Sprintf("zero %d+%d", size-MiB, MiB), "sync", "reread",
		fmt.Sprintf("discard %d+%d", MiB, 98*MiB),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
