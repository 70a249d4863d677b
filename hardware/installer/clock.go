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

// backoff doubles from first to most. There is no jitter: machines start at different times anyway,
// and each talks to regiond once in a while only.
type backoff struct {
	first, most time.Duration
	present     time.Duration
}

func (b *backoff) next() time.Duration {
	b.present = min(max(b.first, 2*b.present), b.most)
	return b.present
}

func (b *backoff) reset() { b.present = 0 }
