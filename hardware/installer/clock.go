package installer

import (
	"context"
	"time"
)

// SystemClock is the real one.
type SystemClock struct{}

// Now is the time of day.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
