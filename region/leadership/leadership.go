// Package leadership lets controllers act only while their host is known to lead the region. A host
// leads in terms: one ends when the Lease was not renewed for so long that another host may take it
// soon, and the next begins when it was renewed again. Nothing ends with a term but what was being
// done: controllers wait for the next one, and what they know stays.
package leadership

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ErrNone is what ends with a term, and what is refused without one.
var ErrNone = errors.New("this host does not lead the region at the moment: its Lease is not renewed")

// Fence knows until when this host leads. It is told of the Lease, and asks nobody.
type Fence struct {
	now   func() time.Time
	lasts time.Duration
	log   *slog.Logger

	mu    sync.Mutex
	until time.Time
	term  *term         // nil while there is none
	begun chan struct{} // closed when the next term begins
	timer *time.Timer
}

type term struct {
	context.Context
	end context.CancelCauseFunc
}

// NewFence returns one without a term. A term lasts so long after a renewal. Times of the clock MUST
// be monotonic, as those of time.Now are: they pass while the process is stopped, and don't jump.
func NewFence(now func() time.Time, lasts time.Duration, log *slog.Logger) *Fence {
	return &Fence{now: now, lasts: lasts, log: log, begun: make(chan struct{})}
}

// Renewed says that the API server has accepted a renewal that was sent at this time of the clock.
// It counts from then: others may have seen it at any time since.
func (f *Fence) Renewed(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = sent.Add(f.lasts)
	left := f.until.Sub(f.now())
	if left <= 0 { // the answer came too late
		f.expire()
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.timer = time.AfterFunc(left, func() { _ = f.Check() }) // ends the term, unless it is renewed until then
	if f.term == nil {
		ctx, end := context.WithCancelCause(context.Background())
		f.term = &term{ctx, end}
		close(f.begun)
		f.log.Info("this host leads the region: its controllers act")
	}
}

// Ended says that the Lease is not this host's any more.
func (f *Fence) Ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Time{}
	if f.end() {
		f.log.Info("this host does not lead the region any more")
	}
}

// expire ends a term that is over. f.mu is held.
func (f *Fence) expire() {
	if !f.now().Before(f.until) && f.end() {
		f.log.Warn("the controllers of this host wait until its Lease is renewed; nothing is restarted", slog.Duration("without a renewal for", f.lasts))
	}
}

// end the term, and say whether there was one. f.mu is held.
func (f *Fence) end() bool {
	if f.term == nil {
		return false
	}
	f.term.end(ErrNone)
	f.term, f.begun = nil, make(chan struct{})
	return true
}

// Check is ErrNone without a term. It looks at the clock: a process that was stopped finds out
// before its timers run.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	if f.term == nil {
		return ErrNone
	}
	return nil
}

// wait for a term. It fails only if ctx ends.
func (f *Fence) wait(ctx context.Context) (*term, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_ = f.Check() // ends a term that is over
		f.mu.Lock()
		present, begun := f.term, f.begun
		f.mu.Unlock()
		if present != nil {
			return present, nil
		}
		select {
		case <-begun:
		case <-ctx.Done():
		}
	}
}

type key struct{}

// With is a context in which what only the leader may do is bounded by a fence.
func With(ctx context.Context, f *Fence) context.Context { return context.WithValue(ctx, key{}, f) }

func of(ctx context.Context) *Fence {
	f, _ := ctx.Value(key{}).(*Fence) // nil: not bounded
	return f
}

// Check is ErrNone if what the context is for is bounded by a fence that has no term. It is to be
// called before what can't be taken back, such as an order to a BMC.
func Check(ctx context.Context) error {
	if f := of(ctx); f != nil {
		return f.Check()
	}
	return nil
}

// again is when a reconciliation that was cut off is looked at again, at the earliest.
const again = time.Second

// Reconciler is a reconciler that acts in terms. A reconciliation that a term's end has cut off is
// done again in the next one.
func Reconciler(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		f := of(ctx)
		if f == nil {
			return r.Reconcile(ctx, req)
		}
		present, err := f.wait(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		bounded, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(present, func() { end(ErrNone) })()
		result, err := r.Reconcile(bounded, req)
		if present.Err() != nil {
			return reconcile.Result{RequeueAfter: again}, nil
		}
		return result, err
	})
}

// Transport refuses to change anything outside of a term.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := Check(r.Context()); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper is the transport below, for client-go's tools that look for it.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
