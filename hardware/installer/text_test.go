package installer

import "testing"

func TestPartitionName(t *testing.T) {
	for disk, want := range map[string]string{"sda": "sda2", "vda": "vda2", "nvme0n1": "nvme0n1p2", "mmcblk0": "mmcblk0p2"} {
		if got := partitionName(disk, 2); got != want {
			t.Errorf("%s: %s, want %s", disk, got, want)
		}
	}
}
