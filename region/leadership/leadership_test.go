package leadership

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const lasts = 10 * time.Second

func newFence(now func() time.Time) *Fence {
	return NewFence(now, lasts, slog.New(slog.DiscardHandler))
}

// reconciliation runs until its context ends or it is told to.
type reconciliation struct {
	begun chan context.Context
	end   chan struct{}
}

func (r reconciliation) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r.begun <- ctx
	select {
	case <-ctx.Done():
		return reconcile.Result{RequeueAfter: time.Hour}, ctx.Err()
	case <-r.end:
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	}
}

type result struct {
	reconcile.Result
	err error
}

// start reconciles by a fence. What it is given is begun, what comes of it is ended.
func start(ctx context.Context, f *Fence) (r reconciliation, ended chan result) {
	r, ended = reconciliation{make(chan context.Context, 1), make(chan struct{})}, make(chan result, 1)
	go func() {
		got, err := Reconciler(r).Reconcile(With(ctx, f), reconcile.Request{})
		ended <- result{got, err}
	}()
	return r, ended
}

// A term lasts until so long after the last renewal was sent, and what runs in it ends with it. The
// next one begins with the next renewal.
func TestTermEndsWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFence(time.Now)
		r, ended := start(t.Context(), f)
		synctest.Wait()
		if len(r.begun) != 0 || !errors.Is(f.Check(), ErrNone) {
			t.Fatal("it reconciles before this host leads")
		}
		sent := time.Now()
		<-time.After(3 * time.Second) // until the answer came
		f.Renewed(sent)
		<-r.begun
		<-time.After(lasts - 4*time.Second)
		f.Renewed(time.Now())
		<-time.After(lasts - time.Nanosecond)
		if err := f.Check(); err != nil || len(ended) != 0 {
			t.Errorf("got %v and %d ended reconciliations just before the deadline, want neither", err, len(ended))
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(f.Check(), ErrNone) {
			t.Error("it leads at the deadline")
		}
		// It is done again, without an error: nothing is wrong with the object.
		if got := <-ended; got.err != nil || got.RequeueAfter != again {
			t.Errorf("got %v after %s from the reconciliation that was cut off, want no error and %s", got.err, got.RequeueAfter, again)
		}
		r, ended = start(t.Context(), f)
		<-time.After(time.Minute)
		if len(r.begun) != 0 {
			t.Error("it reconciles between two terms")
		}
		f.Renewed(time.Now())
		<-r.begun
		close(r.end)
		if got := <-ended; got.err != nil || got.RequeueAfter != time.Hour {
			t.Errorf("got %v after %s in the next term, want the reconciler's own result", got.err, got.RequeueAfter)
		}
	})
}

// The answer to a renewal says nothing of the time since it was sent.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFence(time.Now)
		f.Renewed(time.Now().Add(-lasts))
		if !errors.Is(f.Check(), ErrNone) {
			t.Error("it leads by a renewal that was sent as long ago as a term lasts")
		}
		f.Renewed(time.Now().Add(time.Second - lasts))
		if err := f.Check(); err != nil {
			t.Errorf("got %v, want a term of one second", err)
		}
		<-time.After(time.Second)
		if !errors.Is(f.Check(), ErrNone) {
			t.Error("it leads for longer than a term lasts after the renewal was sent")
		}
	})
}

// A process that was stopped and continues has timers that have not run yet. It looks at the clock.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped time.Duration
		f := newFence(func() time.Time { return time.Now().Add(stopped) })
		f.Renewed(time.Now())
		r, ended := start(t.Context(), f)
		ctx := <-r.begun
		reached := 0
		api := Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			reached++
			return &http.Response{}, nil
		}))
		call := func(ctx context.Context, method string) error {
			r, err := http.NewRequestWithContext(ctx, method, "https://api", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = api.RoundTrip(r)
			return err
		}
		if err := call(ctx, http.MethodPatch); err != nil {
			t.Fatalf("a write in a term: %v", err)
		}
		stopped = time.Minute
		if err := call(ctx, http.MethodPatch); !errors.Is(err, ErrNone) || reached != 1 {
			t.Errorf("a write after a minute's stop: got %v, and %d writes reached the API server; want %v and 1", err, reached, ErrNone)
		}
		if err := call(ctx, http.MethodGet); err != nil {
			t.Errorf("a read after a minute's stop: %v", err)
		}
		if err := Check(ctx); !errors.Is(err, ErrNone) {
			t.Errorf("Check: got %v, want %v", err, ErrNone)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, ErrNone) {
			t.Errorf("the reconciliation ended by %v, want %v", cause, ErrNone)
		}
		<-ended
		// What no fence bounds, such as the enrolment of hosts, is served on every control host.
		if err := call(t.Context(), http.MethodPatch); err != nil || Check(t.Context()) != nil {
			t.Errorf("a write that no fence bounds: %v", err)
		}
	})
}

func TestLeaseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFence(time.Now)
		f.Renewed(time.Now())
		r, ended := start(t.Context(), f)
		<-r.begun
		f.Ended()
		<-ended
		if !errors.Is(f.Check(), ErrNone) {
			t.Error("it leads by a Lease that is another host's")
		}
	})
}

// Waiting for a term does not keep the process from ending.
func TestShutdownWithoutTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		_, ended := start(ctx, newFence(time.Now))
		synctest.Wait()
		stop()
		if got := <-ended; !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v, want %v", got.err, context.Canceled)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
