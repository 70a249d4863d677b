package installer

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Disks are waited for until the kernel is silent, and never beyond the bound.
func TestSettle(t *testing.T) {
	seconds := func(s ...float64) (at []time.Duration) {
		for _, x := range s {
			at = append(at, time.Duration(x*float64(time.Second)))
		}
		return at
	}
	for name, tc := range map[string]struct {
		// disks are when each disk appears, with an event; others are events of other storage.
		disks, others []time.Duration
		// deaf: the kernel can't be listened to.
		deaf  bool
		want  time.Duration
		found int
	}{
		"a disk that is there":               {disks: seconds(0), want: 10 * time.Second, found: 1},
		"a RAID volume 2 s later":            {disks: seconds(0, 2), want: 12 * time.Second, found: 2},
		"a RAID volume 6 s later":            {disks: seconds(0, 6), want: 16 * time.Second, found: 2},
		"a shelf that comes up disk by disk": {disks: seconds(0, 6, 12, 18, 24), want: 34 * time.Second, found: 5},
		"a controller that scans":            {disks: seconds(0, 15), others: seconds(7), want: 25 * time.Second, found: 2},
		"the only disk is slow":              {disks: seconds(25), want: 35 * time.Second, found: 1},
		"no disk at all":                     {want: time.Minute},
		"a bus that never falls silent":      {disks: seconds(0), others: seconds(5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 59), want: time.Minute, found: 1},
		"no events from the kernel":          {disks: seconds(0), deaf: true, want: time.Minute, found: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				found := func() (n int) {
					for _, at := range tc.disks {
						if time.Since(began) >= at {
							n++
						}
					}
					return n
				}
				events := make(chan struct{}, 1)
				for _, at := range append(append([]time.Duration(nil), tc.disks...), tc.others...) {
					if !tc.deaf {
						defer time.AfterFunc(at, func() { events <- struct{}{} }).Stop()
					}
				}
				if tc.deaf {
					close(events)
				}
				if err := settle(t.Context(), events, func() bool { return found() > 0 }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != tc.want || found() != tc.found {
					t.Errorf("settled after %s with %d disks, want %s with %d", took, found(), tc.want, tc.found)
				}
			})
		})
	}
}

func TestSettleEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := settle(ctx, make(chan struct{}), func() bool { return true }); !errors.Is(err, stop) {
		t.Errorf("error %v, want %v", err, stop)
	}
}

func TestOfStorage(t *testing.T) {
	for message, want := range map[string]bool{
		"add@/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda\x00ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda\x00SUBSYSTEM=block\x00MAJOR=8\x00": true,
		"add@/devices/pci0000:00/0000:03:00.0/host6\x00ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:03:00.0/host6\x00SUBSYSTEM=scsi\x00":                                                                                   true,
		"change@/devices/virtual/block/loop0\x00ACTION=change\x00DEVPATH=/devices/virtual/block/loop0\x00SUBSYSTEM=block\x00":                                                                                                false,
		"add@/devices/pci0000:00/0000:00:02.0/net/eth0\x00ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:00:02.0/net/eth0\x00SUBSYSTEM=net\x00":                                                                              false,
		"":           false,
		"SUBSYSTEM=": false,
	} {
		if got := ofStorage(message); got != want {
			t.Errorf("%.60q: %v, want %v", message, got, want)
		}
	}
}

// The kernel's own events arrive: a disk that is asked to announce itself does.
func TestWatchStorage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	events, err := watchStorage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	disk := announceDisk(t)
	select {
	case <-events:
	case <-time.After(10 * time.Second):
		t.Errorf("no event of %s", disk)
	}
	cancel()
	for range events { // drained until it is closed
	}
}

// announceDisk has the kernel send the event of a real disk once more (kernel documentation, ABI/testing/sysfs-uevent).
func announceDisk(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir("/sys/block")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink("/sys/block/" + e.Name()); err == nil && ofStorage("DEVPATH="+target[len(".."):]+"\x00SUBSYSTEM=block\x00") {
			if err := os.WriteFile("/sys/block/"+e.Name()+"/uevent", []byte("change\n"), 0); err != nil {
				t.Fatal(err)
			}
			return e.Name()
		}
	}
	t.Fatal("this machine has no disk")
	return ""
}
