package manager

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"regiond.dev/regiond/region"
)

// LeaseName is the Lease in region.NamespaceSystem that names the control host whose controllers act.
const LeaseName = "regiond-controllers"

// requestTimeout bounds one request about the Lease; it is below the time for a renewal, controller-runtime's 10 s, so that one
// request without an answer is not the only try.
const requestTimeout = 5 * time.Second

// lease is the Lease of the region's controllers. It differs from client-go's in two ways.
//
// Its holder is a host, not a process, so that regiond which was killed and started again holds it at once: waiting for its own
// Lease to expire would cost 15 s. Two processes of one host can't both take it for theirs, because the data directory is locked.
//
// It is lost to another host only, not to an API server that does not answer. regiond runs that API server itself: ending all
// controllers, DHCP and the control plane because it is away would make a short outage a long one. Meanwhile nobody can take the
// Lease, for a region has one control host.
type lease struct {
	resourcelock.LeaseLock
	log *slog.Logger

	// What follows belongs to the elector's goroutine.

	// held is what this process wrote into the Lease when it took or renewed it; nil while it does not have it.
	held *resourcelock.LeaderElectionRecord
	// silent: the last request was not answered.
	silent bool
}

func newLease(conf *rest.Config, host string, log *slog.Logger) (*lease, error) {
	conf = rest.AddUserAgent(conf, "leader-election")
	conf.Timeout = requestTimeout
	api, err := coordinationv1client.NewForConfig(conf)
	if err != nil {
		return nil, err
	}
	return &lease{log: log, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: LeaseName},
		Client:    api, LockConfig: resourcelock.ResourceLockConfig{Identity: host},
	}}, nil
}

// Get reads the Lease. Without an answer it is what this process wrote last.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.LeaseLock.Get(ctx)
	if err == nil || apierrors.IsNotFound(err) || l.held == nil {
		return r, raw, err
	}
	l.unanswered(err)
	raw, err = json.Marshal(l.held)
	return l.held, raw, err
}

// Create makes the Lease for this host.
func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, r)
	if err == nil {
		l.written(r)
	}
	return err
}

// Update takes, renews or releases the Lease. A renewal succeeds without an answer, too, see lease;
// what the API server says about the Lease itself, that it was changed or deleted, is an error,
// after which client-go reads it.
func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Update(ctx, r)
	switch {
	case err == nil:
		l.written(r)
	case l.held != nil && r.HolderIdentity == l.Identity() && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		l.unanswered(err)
		return nil
	}
	return err
}

// written notes what is in the Lease now.
func (l *lease) written(r resourcelock.LeaderElectionRecord) {
	l.silent, l.held = false, nil
	if r.HolderIdentity == l.Identity() {
		l.held = &r
	}
}

// unanswered logs the first of the requests in a row that failed.
func (l *lease) unanswered(err error) {
	if !l.silent {
		l.log.Warn("the Lease of the controllers is not renewed while the API server does not answer; they continue",
			slog.String("lease", l.Describe()), slog.Any("error", err))
	}
	l.silent = true
}
