package inventory_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"regiond.dev/regiond/machine/inventory"
)

// silent is a disk that does not answer before it is freed.
type silent struct{ freed chan struct{} }

func (silent) Close() error { return nil }
func (s silent) ReadAt([]byte, int64) (int, error) {
	<-s.freed
	return 0, errors.New("input/output error")
}

// One dead disk of four costs a minute, and the others are reported as they are. It is not asked again while the kernel
// still waits for it.
func TestSilentDiskIsSick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		opened := make(chan string, 100)
		r := inventory.Remembering(fixture(t, "metal"))
		r.OpenDisk = func(name string) (inventory.DiskReader, error) {
			opened <- name
			if name == "nvme0n1" {
				return silent{freed}, nil
			}
			return memory{}, nil
		}
		for round, want := range []string{"did not answer within 1m0s", "still does not answer"} {
			disks, err := r.Disks()
			if err != nil || len(disks) != 4 {
				t.Fatalf("disks %+v (%v)", disks, err)
			}
			for _, d := range disks {
				switch {
				case d.Name == "nvme0n1" && (d.Blank || !strings.Contains(d.Problem, want) || d.SerialNumber == ""):
					t.Errorf("round %d: %+v, want a problem with %q", round, d, want)
				case d.Name != "nvme0n1" && (!d.Blank || d.Problem != ""):
					t.Errorf("round %d: healthy disk %+v", round, d)
				}
			}
		}
		if n := len(opened); n != 7 {
			t.Errorf("disks were opened %d times, want 4 and then 3", n)
		}
		close(freed)
		synctest.Wait()
		if disks, err := r.Disks(); err != nil || !strings.Contains(disks[0].Problem, "input/output error") {
			t.Errorf("after it answered: %+v (%v)", disks[0], err)
		}
	})
}
