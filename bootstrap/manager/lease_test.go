package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	fakecoordination "k8s.io/client-go/kubernetes/typed/coordination/v1/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

// api is an API server with Leases.
type api struct {
	clienttesting.Fake
	tracker clienttesting.ObjectTracker
	// trouble is the error of each read and write while it is set.
	trouble atomic.Pointer[error]
	// updates counts the attempted updates.
	updates atomic.Int64
}

func newAPI(leases ...*coordinationv1.Lease) *api {
	kinds := scheme.New()
	a := &api{tracker: clienttesting.NewObjectTracker(kinds, serializer.NewCodecFactory(kinds).UniversalDecoder())}
	for _, l := range leases {
		if err := a.tracker.Add(l); err != nil {
			panic(err)
		}
	}
	a.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() == "update" {
			a.updates.Add(1)
		}
		if err := a.trouble.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	})
	a.AddReactor("*", "*", clienttesting.ObjectReaction(a.tracker))
	return a
}

func (a *api) lease(host string) *lease {
	return &lease{log: slog.New(slog.DiscardHandler), LeaseLock: resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: LeaseName}, Client: &fakecoordination.FakeCoordinationV1{Fake: &a.Fake},
		LockConfig: resourcelock.ResourceLockConfig{Identity: host},
	}}
}

// heldBy returns a Lease that a host has just renewed.
func heldBy(host string) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: LeaseName}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &host, LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To[int32](1)}}
}

// campaign runs an elector until the test ends, and returns channels that are closed when it leads,
// and when it no longer does.
func campaign(t *testing.T, l *lease, duration, renew, retry time.Duration) (leads, lost chan struct{}) {
	t.Helper()
	leads, lost = make(chan struct{}), make(chan struct{})
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{Lock: l, LeaseDuration: duration, RenewDeadline: renew, RetryPeriod: retry,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leads) }, OnStoppedLeading: func() { close(lost) }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return leads, lost
}

func within(t *testing.T, d time.Duration, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(d):
		t.Fatalf("%s: not within %s", what, d)
	}
}

// A killed regiond does not release its Lease; the next one on this host holds it with its first
// request. The second request would come after an hour.
func TestLeaseOfThisHostIsHeldAtOnce(t *testing.T) {
	a := newAPI(heldBy("seed"))
	leads, _ := campaign(t, a.lease("seed"), 3*time.Hour, 2*time.Hour, time.Hour)
	within(t, 10*time.Second, leads, "leading by its own Lease")
}

func TestLeaseOfAnotherHostExpiresFirst(t *testing.T) {
	other := heldBy("other")
	other.Spec.LeaseDurationSeconds = ptr.To[int32](1)
	a := newAPI(other)
	begun := time.Now()
	leads, _ := campaign(t, a.lease("seed"), time.Second, 500*time.Millisecond, 20*time.Millisecond)
	within(t, 10*time.Second, leads, "leading after the other's Lease has expired")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("acquired the Lease of another host after %s, want at least its duration of 1s", took)
	}
}

// An API server that does not respond for much longer than the renew deadline ends nothing; another
// holder does.
func TestLeaseIsLostToAnotherHostOnly(t *testing.T) {
	a := newAPI()
	leads, lost := campaign(t, a.lease("seed"), 300*time.Millisecond, 200*time.Millisecond, 20*time.Millisecond)
	within(t, 10*time.Second, leads, "leading by a new Lease")
	away := errors.New("connection refused")
	a.trouble.Store(&away)
	begun := a.updates.Load()
	tries := time.NewTicker(10 * time.Millisecond)
	defer tries.Stop()
	for outage := time.Now(); a.updates.Load() < begun+5 || time.Since(outage) < time.Second; <-tries.C {
		select {
		case <-lost:
			t.Fatalf("lost after %s without a response from the API server", time.Since(outage))
		default:
		}
	}
	// Another host holds it: its writes come first, and ours conflict with them.
	other := heldBy("other")
	if err := a.tracker.Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), other, other.Namespace); err != nil {
		t.Fatal(err)
	}
	a.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), LeaseName, errors.New("changed by other"))
	})
	a.trouble.Store(nil)
	within(t, 10*time.Second, lost, "no longer leading")
}

func TestUpdateWithoutAnswer(t *testing.T) {
	away := errors.New("connection refused")
	leases := coordinationv1.Resource("leases")
	for name, tt := range map[string]struct {
		held   bool
		holder string
		err    error
		failed bool
	}{
		"a renewal without a response":     {true, "seed", away, false},
		"a renewal that is refused":        {true, "seed", apierrors.NewForbidden(leases, LeaseName, away), false},
		"the first one without a response": {false, "seed", away, true},
		"the Lease was changed":            {true, "seed", apierrors.NewConflict(leases, LeaseName, away), true},
		"the Lease was deleted":            {true, "seed", apierrors.NewNotFound(leases, LeaseName), true},
		"the release without a response":   {true, "", away, true},
		"a renewal with a response":        {true, "seed", nil, false},
	} {
		a := newAPI(heldBy("seed"))
		l := a.lease("seed")
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tt.held {
			l.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "seed"}
		}
		if tt.err != nil {
			a.trouble.Store(&tt.err)
		}
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: tt.holder}); (err != nil) != tt.failed {
			t.Errorf("%s: got error %v, want an error: %t", name, err, tt.failed)
		}
	}
}
