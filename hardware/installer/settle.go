package installer

import (
	"context"
	"time"
)

// When the disks are taken to be all there. Controllers scan their buses for a while after their driver was loaded, and a
// RAID controller shows its volumes some six seconds later than anything else. regiond must not choose from half of the
// disks; it waits on its own for those that it knows by name.
const (
	// settleQuiet is how long the kernel has to be silent about storage.
	settleQuiet = 10 * time.Second
	// settleWithin bounds the waiting for a bus that keeps talking, and on a machine without disks.
	settleWithin = 60 * time.Second
)

// settle waits until there is a disk and the kernel has not announced anything about storage for a while. events is closed
// when the kernel can't be listened to; then the bound is waited for.
func settle(ctx context.Context, events <-chan struct{}, anyDisk func() bool) error {
	bound, quiet := time.NewTimer(settleWithin), time.NewTimer(settleQuiet)
	defer bound.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-bound.C:
			return nil
		case _, ok := <-events:
			if !ok {
				events = nil
				quiet.Stop()
				continue
			}
			quiet.Reset(settleQuiet)
		case <-quiet.C:
			if anyDisk() {
				return nil
			}
			quiet.Reset(settleQuiet)
		}
	}
}
