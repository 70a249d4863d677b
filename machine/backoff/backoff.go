// Package backoff says how long to wait before something that failed is tried again.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff doubles from First to Most with each failure in a row. It is for one goroutine.
type Backoff struct {
	First, Most time.Duration
	last        time.Duration
}

// Next is how long to wait after another failure.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(b.First, 2*b.last), b.Most)
	return b.last
}

// Reset begins again, after a success.
func (b *Backoff) Reset() { b.last = 0 }

// Jitter spreads d by a tenth of it in both directions, so that the hosts of a rack drift apart.
func Jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// Sleep waits for d. It returns false, at once, when the context ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
