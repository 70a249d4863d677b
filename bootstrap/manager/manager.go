// Package manager creates the one controller-runtime manager of a regiond process. Rooms add their
// controllers with their own Setup functions; this package knows none of them. It decides what they
// all share: the registered kinds, what is cached of them, the metrics, and the leader election, by
// which the controllers of only one control host act at a time.
package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/scheme"
)

// Cached selects the cached objects of kinds that are only partly cached. All objects of other
// kinds are cached.
type Cached map[client.Object]cache.ByObject

// Config configures the manager.
type Config struct {
	// REST is a client configuration for the API server with all permissions.
	REST *rest.Config
	// Host is this control host's name, by which it holds the Lease. It MUST be unique among the
	// region's control hosts.
	Host string
	// Cached has the selection of each room. Two rooms MUST NOT name the same kind, because one of
	// them would see different objects than it expects.
	Cached []Cached
	// MetricsAddress serves Prometheus metrics, /healthz and /readyz, e.g. 127.0.0.1:9440. Empty:
	// none.
	MetricsAddress string
	Log            *slog.Logger
}

// New returns the manager. Runnables that are added to it start when this host holds the Lease, and
// change something only while it does, see package leadership, unless their NeedLeaderElection says
// that they run on every control host.
func New(c Config) (manager.Manager, error) {
	if c.REST == nil || c.Host == "" || c.Log == nil {
		return nil, errors.New("controller manager: REST, Host and Log are required")
	}
	conf := rest.CopyConfig(c.REST)
	conf.QPS = -1 // limited by the API server's own priority and fairness
	kinds := scheme.New()
	selected, err := merge(kinds, c.Cached)
	if err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	fence := leadership.NewFence(time.Now, renewDeadline, c.Log)
	lease, err := newLease(conf, c.Host, fence, c.Log)
	if err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	metrics := c.MetricsAddress
	if metrics == "" {
		metrics = "0" // controller-runtime's value for none
	}
	conf.Wrap(leadership.Transport)
	again := true // a retry of a failed set-up adds a controller of the same name
	leads := func(*http.Request) error {
		if err := fence.Check(); err != nil {
			return fmt.Errorf("%s does not hold the Lease %s: %w", c.Host, lease.Describe(), err)
		}
		return nil
	}
	m, err := manager.New(conf, manager.Options{
		Scheme: kinds,
		Logger: logr.FromSlogHandler(c.Log.Handler()),
		Metrics: metricsserver.Options{BindAddress: metrics, ExtraHandlers: map[string]http.Handler{
			"/healthz": healthz.CheckHandler{Checker: healthz.Ping}, "/readyz": healthz.CheckHandler{Checker: leads},
		}},
		Cache:                               cache.Options{ByObject: selected},
		Controller:                          config.Controller{SkipNameValidation: &again},
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lease,
		LeaseDuration:                       ptr.To(leaseDuration),
		RenewDeadline:                       ptr.To(renewDeadline),
		RetryPeriod:                         ptr.To(retryPeriod),
		// Controllers have ended by then, so another control host need not wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	return fenced{Manager: m, fence: fence}, nil
}

// fenced is a manager whose runnables are bounded by a fence if they are only for the leader.
type fenced struct {
	manager.Manager
	fence *leadership.Fence
}

// Add adds a runnable; see New.
func (m fenced) Add(r manager.Runnable) error {
	if e, says := r.(manager.LeaderElectionRunnable); says && !e.NeedLeaderElection() {
		return m.Manager.Add(r)
	}
	return m.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error { return r.Start(leadership.With(ctx, m.fence)) }))
}

// merge merges the rooms' selections of objects.
func merge(kinds *runtime.Scheme, rooms []Cached) (map[client.Object]cache.ByObject, error) {
	all := map[client.Object]cache.ByObject{}
	seen := map[schema.GroupVersionKind]bool{}
	for _, room := range rooms {
		for o, which := range room {
			gvk, err := apiutil.GVKForObject(o, kinds)
			if err != nil {
				return nil, err
			}
			if seen[gvk] {
				return nil, fmt.Errorf("two rooms select the cached objects of %s; one of them must use its own cache", gvk.Kind)
			}
			seen[gvk] = true
			all[o] = which
		}
	}
	return all, nil
}
