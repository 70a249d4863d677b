package inventory_test

import (
	"testing"

	"regiond.dev/regiond/machine/inventory"
)

// Whatever lies on a disk, reading it neither crashes nor runs away.
func FuzzDiskContent(f *testing.F) {
	f.Add([]byte("EFI PART"), []byte{0x55, 0xAA})
	f.Fuzz(func(t *testing.T, header, boot []byte) {
		diskOf(t, memory{512: header, 446: boot, 0x400: boot, inventory.MarkerOffset: header})
	})
}

func FuzzDecodeMarker(f *testing.F) {
	f.Add([]byte("RGNDMRK1\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) { inventory.DecodeMarker(b) })
}
