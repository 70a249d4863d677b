// Package leadership lets controllers act only while their host is known to lead the region. A host
// leads in terms: a term ends when the Lease has not been renewed for so long that another host may
// soon acquire it, and the next begins when it is renewed. Only running operations end with a term:
// controllers are suspended until the next one, and keep their state.
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

// ErrNone is the error of what is refused without a term, and the cause of contexts that end with
// one.
var ErrNone = errors.New("this host does not lead the region at the moment: its Lease is not renewed")

// Fence knows until when this host leads. It sends no requests: Renewed and Ended tell it of the
// Lease.
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

// NewFence returns a fence without a term. lasts is the duration of a term after the last renewal.
// The clock MUST be monotonic, as time.Now is: it advances while the process is stopped, and does not
// jump.
func NewFence(now func() time.Time, lasts time.Duration, log *slog.Logger) *Fence {
	return &Fence{now: now, lasts: lasts, log: log, begun: make(chan struct{})}
}

// Renewed reports that the API server has accepted a renewal that was sent at this time. The term
// counts from then, because others may have seen the renewal at any time since.
func (f *Fence) Renewed(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = sent.Add(f.lasts)
	left := f.until.Sub(f.now())
	if left <= 0 { // the response came too late
		f.expire()
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.timer = time.AfterFunc(left, func() { _ = f.Check() }) // ends the term, unless it was renewed meanwhile
	if f.term == nil {
		ctx, end := context.WithCancelCause(context.Background())
		f.term = &term{ctx, end}
		close(f.begun)
		f.log.Info("this host leads the region: its controllers are active")
	}
}

// Ended reports that this host no longer holds the Lease.
func (f *Fence) Ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Time{}
	if f.end() {
		f.log.Info("this host no longer leads the region")
	}
}

// expire ends a term whose time is over. f.mu is held.
func (f *Fence) expire() {
	if !f.now().Before(f.until) && f.end() {
		f.log.Warn("the controllers of this host are suspended until its Lease is renewed; nothing is restarted", slog.Duration("without a renewal for", f.lasts))
	}
}

// end ends the term, and returns whether there was one. f.mu is held.
func (f *Fence) end() bool {
	if f.term == nil {
		return false
	}
	f.term.end(ErrNone)
	f.term, f.begun = nil, make(chan struct{})
	return true
}

// Check returns ErrNone without a term. It reads the clock, so that a process that was stopped
// notices before its timers run.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	if f.term == nil {
		return ErrNone
	}
	return nil
}

// wait waits for a term. It only fails if ctx ends.
func (f *Fence) wait(ctx context.Context) (*term, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_ = f.Check() // ends a term whose time is over
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

// With returns a context whose changes are bounded by a fence.
func With(ctx context.Context, f *Fence) context.Context { return context.WithValue(ctx, key{}, f) }

func of(ctx context.Context) *Fence {
	f, _ := ctx.Value(key{}).(*Fence) // nil: not bounded
	return f
}

// Check returns ErrNone if the context is bounded by a fence that has no term. Call it before
// operations that can't be undone, such as an order to a BMC.
func Check(ctx context.Context) error {
	if f := of(ctx); f != nil {
		return f.Check()
	}
	return nil
}

// again is the delay after which a cancelled reconciliation is repeated, at the earliest.
const again = time.Second

// Reconciler returns a reconciler that acts in terms. A reconciliation that is cancelled by the end
// of a term is repeated in the next one.
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

// Transport returns a transport that refuses changes outside of a term.
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

// WrappedRoundTripper returns the inner transport, for client-go's tools that look for it.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
