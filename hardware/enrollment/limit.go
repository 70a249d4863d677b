package enrollment

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"regiond.dev/regiond/machine/enroll"
)

// Limits per source address. An installer sends a report every few seconds; a rack behind one
// address (NAT) must still get through.
const (
	requestRate  = 20 // per second
	requestBurst = 100
	// Refusals of those who have proved nothing, and lines in the log: a guesser of 256 bits has no hope, but is not to keep
	// the API server busy, nor to fill the log.
	refusalEvery = 6 * time.Second
	refusalBurst = 10
	maxSources   = 4096
	forgetAfter  = 5 * time.Minute
)

// limits keeps a bounded number of sources; beyond that, unknown ones share one budget.
type limits struct {
	now func() time.Time

	mu       sync.Mutex
	of       map[netip.Addr]*source
	overflow *source
}

type source struct {
	requests, refusals, logged *rate.Limiter
	last                       time.Time
}

func newSource() *source {
	return &source{requests: rate.NewLimiter(requestRate, requestBurst),
		refusals: rate.NewLimiter(rate.Every(refusalEvery), refusalBurst), logged: rate.NewLimiter(rate.Every(refusalEvery), refusalBurst)}
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, of: map[netip.Addr]*source{}, overflow: newSource()}
}

func (l *limits) source(a netip.Addr) *source {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	s := l.of[a]
	if s == nil {
		if len(l.of) >= maxSources {
			for k, v := range l.of {
				if now.Sub(v.last) > forgetAfter {
					delete(l.of, k)
				}
			}
		}
		if len(l.of) >= maxSources {
			return l.overflow
		}
		s = newSource()
		l.of[a] = s
	}
	s.last = now
	return s
}

// allow takes one request from the source's budget. It also refuses a source that used up its
// budget of refusals.
func (l *limits) allow(a netip.Addr) bool {
	s := l.source(a)
	return s.requests.AllowN(l.now(), 1) && s.refusals.TokensAt(l.now()) >= 1
}

// refused takes one refusal from the source's budget.
func (l *limits) refused(a netip.Addr) { l.source(a).refusals.AllowN(l.now(), 1) }

// log takes one line from what may be logged of the source. The metrics count all.
func (l *limits) log(a netip.Addr) bool { return l.source(a).logged.AllowN(l.now(), 1) }

// proven is the refusal of a machine that has shown a certificate of a host or signed with the key of one. It does not count
// against its address: a host that waits for its readmission, or was retired, goes on asking, and others are behind the address.
type proven struct{ error }

func (p proven) Unwrap() error { return p.error }

// asProven marks an error, if it is one.
func asProven(err error) error {
	if err == nil {
		return nil
	}
	return proven{err}
}

// counts says whether a refusal takes from the budget of its address.
func counts(err error) bool {
	refused, ok := errors.AsType[*enroll.Error](err)
	if _, known := errors.AsType[proven](err); !ok || known {
		return false
	}
	return refused.Reason != enroll.ReasonTooMany && refused.Reason != enroll.ReasonUnavailable
}
