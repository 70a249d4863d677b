package manager

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/scheme"
)

// store holds the Leases that several API servers serve.
type store struct {
	clienttesting.ObjectTracker
	versions atomic.Int64
}

// api is an API server with Leases, as one control host reaches it.
type api struct {
	clienttesting.Fake
	store *store
	// trouble is the error of each read and write while it is set.
	trouble atomic.Pointer[error]
	// updates counts the attempted updates.
	updates atomic.Int64
}

func newAPI(leases ...*coordinationv1.Lease) *api {
	kinds := scheme.New()
	s := &store{ObjectTracker: clienttesting.NewObjectTracker(kinds, serializer.NewCodecFactory(kinds).UniversalDecoder())}
	for _, l := range leases {
		if err := s.Add(l); err != nil {
			panic(err)
		}
	}
	return s.reached()
}

// reached returns an API server of the same store, for another control host.
func (s *store) reached() *api {
	a := &api{store: s}
	a.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		update := action.GetVerb() == "update"
		if update {
			a.updates.Add(1)
		}
		if err := a.trouble.Load(); err != nil {
			return true, nil, *err
		}
		if update {
			if err := s.next(action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	a.AddReactor("*", "*", clienttesting.ObjectReaction(s))
	return a
}

// next sets the version of a Lease that replaces the stored one, if it has the stored version.
func (s *store) next(l *coordinationv1.Lease) error {
	o, err := s.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), l.Namespace, l.Name)
	if err != nil {
		return err
	}
	if o.(*coordinationv1.Lease).ResourceVersion != l.ResourceVersion {
		return apierrors.NewConflict(coordinationv1.Resource("leases"), l.Name, errors.New("the object has been modified"))
	}
	l.ResourceVersion = strconv.FormatInt(s.versions.Add(1), 10)
	return nil
}

// taken replaces the Lease as another host would, which holds it, or has released it if by is empty.
func (s *store) taken(t *testing.T, by string) {
	t.Helper()
	l := heldBy(by)
	l.ResourceVersion = "another"
	if err := s.Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), l, l.Namespace); err != nil {
		t.Fatal(err)
	}
}

func (a *api) lease(host string) *lease {
	log := slog.New(slog.DiscardHandler)
	return &lease{log: log, now: time.Now, fence: leadership.NewFence(time.Now, renewDeadline, log), LeaseLock: resourcelock.LeaseLock{
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
	a.store.taken(t, "other")
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

// candidate is a control host that competes for the Lease, in a bubble of synctest.
type candidate struct {
	*api
	lease       *lease
	leads, lost chan struct{}
}

func compete(t *testing.T, a *api, host string) *candidate {
	c := &candidate{api: a, lease: a.lease(host)}
	c.leads, c.lost = campaign(t, c.lease, leaseDuration, renewDeadline, retryPeriod)
	return c
}

func (c *candidate) acts() bool { return c.lease.fence.Check() == nil }

// over observes candidates for a time and returns when each acted first and last, -1 if never. No
// two may act at the same time.
func over(t *testing.T, d time.Duration, hosts ...*candidate) (first, last []time.Duration) {
	t.Helper()
	begun := time.Now()
	first, last = make([]time.Duration, len(hosts)), make([]time.Duration, len(hosts))
	for i := range first {
		first[i], last[i] = -1, -1
	}
	for at := time.Duration(0); at <= d; at = time.Since(begun) {
		n := 0
		for i, h := range hosts {
			if h.acts() {
				n++
				if last[i] = at; first[i] < 0 {
					first[i] = at
				}
			}
		}
		if n > 1 {
			t.Errorf("%d hosts act after %s", n, at)
		}
		<-time.After(50 * time.Millisecond)
	}
	return first, last
}

// The only control host is suspended while the API server is down and continues by itself: nothing
// is lost or ended.
func TestOutageOfTheOnlyControlHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := compete(t, newAPI(), "seed")
		within(t, time.Minute, h.leads, "leading")
		away := errors.New("connection refused")
		h.trouble.Store(&away)
		_, last := over(t, time.Minute, h)
		if last[0] < renewDeadline-retryPeriod-time.Second || last[0] > renewDeadline {
			t.Errorf("it acted for %s without a response from the API server, want at most %s", last[0], renewDeadline)
		}
		h.trouble.Store(nil)
		first, _ := over(t, 10*time.Second, h)
		if first[0] < 0 || first[0] > 3*time.Second {
			t.Errorf("it acts %s after the API server is back, want within 3s", first[0])
		}
		select {
		case <-h.lost:
			t.Error("it lost the Lease")
		default:
		}
	})
}

// Two control hosts never act at the same time: one that can't renew the Lease stops before the
// other acquires it.
func TestControlHostThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := compete(t, newAPI(), "a")
		within(t, time.Minute, a.leads, "leading")
		b := compete(t, a.store.reached(), "b")
		over(t, 20*time.Second, a, b)
		away := errors.New("i/o timeout")
		a.trouble.Store(&away)
		first, last := over(t, time.Minute, a, b)
		if longest := leaseDuration + 10*time.Second; first[1] < 0 || first[1] > longest { // it looks every 2 to 4.4 s
			t.Errorf("b acts after %s, want within %s", first[1], longest)
		}
		if spare, want := first[1]-last[0], leaseDuration-renewDeadline; spare < want {
			t.Errorf("b acts %s after a has stopped, want at least %s for a's running operations to end", spare, want)
		}
		a.trouble.Store(nil)
		if first, _ := over(t, time.Minute, a, b); first[0] >= 0 {
			t.Errorf("a acts after %s while b holds the Lease, want never", first[0])
		}
		within(t, time.Minute, a.lost, "losing the Lease that b holds")
	})
}

// A control host that was cut off while another one led, and ended, has to restart: the state of its
// controllers is outdated.
func TestLeaseThatWasReleasedByAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := compete(t, newAPI(), "a")
		within(t, time.Minute, h.leads, "leading")
		away := errors.New("i/o timeout")
		h.trouble.Store(&away)
		<-time.After(time.Minute)
		h.store.taken(t, "")
		h.trouble.Store(nil)
		if first, _ := over(t, 5*time.Second, h); first[0] >= 0 {
			t.Errorf("it acts after %s, want never", first[0])
		}
		within(t, time.Minute, h.lost, "ending")
	})
}

// A process that was stopped for a minute and continues notices without a request that it does not
// lead.
func TestControlHostThatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Int64
		l := newAPI().lease("a")
		l.fence = leadership.NewFence(func() time.Time { return time.Now().Add(time.Duration(stopped.Load())) }, renewDeadline, l.log)
		leads, _ := campaign(t, l, leaseDuration, renewDeadline, retryPeriod)
		within(t, time.Minute, leads, "leading")
		if err := l.fence.Check(); err != nil {
			t.Fatalf("the new leader: got %v, want a term", err)
		}
		stopped.Store(int64(time.Minute))
		if err := l.fence.Check(); !errors.Is(err, leadership.ErrNone) {
			t.Errorf("got %v after a minute's stop, want %v", err, leadership.ErrNone)
		}
	})
}
