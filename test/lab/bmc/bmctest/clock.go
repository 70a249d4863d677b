package bmctest

import (
	"sync"
	"time"

	"github.com/bougou/go-ipmi/pkg/clock"
)

// Clock is a clock whose time is set by the test. Its timers are real ones.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at the given time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Advance the time.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Now implements clock.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer implements clock.Clock.
func (c *Clock) NewTimer(d time.Duration) clock.Timer { return clock.Real.NewTimer(d) }

// NewTicker implements clock.Clock.
func (c *Clock) NewTicker(d time.Duration) clock.Ticker { return clock.Real.NewTicker(d) }
