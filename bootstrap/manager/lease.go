package manager

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/leadership"
)

// LeaseName is the Lease in region.NamespaceSystem whose holder is the control host with active
// controllers.
const LeaseName = "regiond-controllers"

// Times of the Lease: those of Kubernetes' own controllers (component-base,
// RecommendedDefaultLeaderElectionConfiguration), which are also controller-runtime's defaults.
const (
	// leaseDuration is how long another host waits after the last renewal that it has seen before it
	// acquires the Lease.
	leaseDuration = 15 * time.Second
	// renewDeadline is how long this host acts after its last renewal. The rest of leaseDuration is
	// for running operations to end, and for clocks that differ in speed.
	renewDeadline = 10 * time.Second
	// retryPeriod is the time between renewals.
	retryPeriod = 2 * time.Second
	// requestTimeout bounds one request for the Lease. It is shorter than renewDeadline, so that there
	// is time for another attempt.
	requestTimeout = 5 * time.Second
)

// lease is the Lease of the region's controllers. It differs from client-go's in two ways.
//
// Its holder is a host, not a process, so that a regiond that was killed and restarted holds it at
// once: waiting for its own Lease to expire would take 15 s. Two processes on one host can't both
// hold it, because the data directory is locked.
//
// It is only lost to another host, not when the API server does not respond. regiond runs that API
// server itself: stopping all controllers, DHCP and the control plane during its outage would turn
// a short outage into a long one. But another host may acquire the Lease meanwhile: the fence, which
// is told of each renewal, suspends the controllers from renewDeadline on. They continue when the
// Lease is renewed and still held by this host.
type lease struct {
	resourcelock.LeaseLock
	fence *leadership.Fence
	now   func() time.Time
	log   *slog.Logger

	// The fields below belong to the elector's goroutine.

	// held is what this process wrote into the Lease when it acquired or renewed it; nil while it does
	// not hold it.
	held *resourcelock.LeaderElectionRecord
	// silent: the last request got no response.
	silent bool
	// lost: another host held the Lease after this process. It can't hold it again, because the state
	// of its controllers is outdated.
	lost bool
}

var errLost = errors.New("another host has held the Lease meanwhile")

func newLease(conf *rest.Config, host string, fence *leadership.Fence, log *slog.Logger) (*lease, error) {
	conf = rest.AddUserAgent(conf, "leader-election")
	conf.Timeout = requestTimeout
	api, err := coordinationv1client.NewForConfig(conf)
	if err != nil {
		return nil, err
	}
	return &lease{fence: fence, now: time.Now, log: log, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: LeaseName},
		Client:    api, LockConfig: resourcelock.ResourceLockConfig{Identity: host},
	}}, nil
}

// Get reads the Lease. Without a response it returns what this process wrote last.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && l.held != nil && r.HolderIdentity != l.Identity() {
		l.lost = true
		l.fence.Ended()
	}
	if err == nil || apierrors.IsNotFound(err) || l.held == nil {
		return r, raw, err
	}
	l.unanswered(err)
	raw, err = json.Marshal(l.held)
	return l.held, raw, err
}

// Create creates the Lease for this host.
func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.lost {
		return errLost
	}
	sent := l.now()
	err := l.LeaseLock.Create(ctx, r)
	if err == nil {
		l.written(r, sent)
	}
	return err
}

// Update acquires, renews or releases the Lease. A renewal also succeeds without a response; see
// lease. If the API server says that the Lease was changed or deleted, that is an error, after
// which client-go reads it.
func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.lost {
		return errLost
	}
	sent := l.now()
	err := l.LeaseLock.Update(ctx, r)
	switch {
	case err == nil:
		l.written(r, sent)
	case l.held != nil && r.HolderIdentity == l.Identity() && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		l.unanswered(err)
		return nil
	}
	return err
}

// written records the content of the Lease since a request that was sent at this time.
func (l *lease) written(r resourcelock.LeaderElectionRecord, sent time.Time) {
	l.silent, l.held = false, nil
	if r.HolderIdentity != l.Identity() {
		l.fence.Ended()
		return
	}
	l.held = &r
	l.fence.Renewed(sent)
}

// unanswered logs the first of several consecutive failed requests.
func (l *lease) unanswered(err error) {
	if !l.silent {
		l.log.Warn("can't renew the controllers' Lease, because the API server does not respond",
			slog.String("lease", l.Describe()), slog.Any("error", err))
	}
	l.silent = true
}
