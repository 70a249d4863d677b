// Package manager creates the one controller-runtime manager of a regiond process. Rooms add their
// controllers with their own Setup functions; this package knows none of them. It decides what they
// all share: the registered kinds, what is cached of them, the metrics, and the leader election, by
// which the controllers of only one control host act at a time.
package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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

// New returns the manager. Runnables that are added to it run while this host holds the Lease,
// unless their NeedLeaderElection says that they run on every control host.
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
	lease, err := newLease(conf, c.Host, c.Log)
	if err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	metrics := c.MetricsAddress
	if metrics == "" {
		metrics = "0" // controller-runtime's value for none
	}
	again := true // a retry of a failed set-up adds a controller of the same name
	var m manager.Manager
	elected := func(*http.Request) error {
		select {
		case <-m.Elected():
			return nil
		default:
			return fmt.Errorf("%s does not hold the Lease %s", c.Host, lease.Describe())
		}
	}
	m, err = manager.New(conf, manager.Options{
		Scheme: kinds,
		Logger: logr.FromSlogHandler(c.Log.Handler()),
		Metrics: metricsserver.Options{BindAddress: metrics, ExtraHandlers: map[string]http.Handler{
			"/healthz": healthz.CheckHandler{Checker: healthz.Ping}, "/readyz": healthz.CheckHandler{Checker: elected},
		}},
		Cache:                               cache.Options{ByObject: selected},
		Controller:                          config.Controller{SkipNameValidation: &again},
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lease,
		// Controllers have ended by then, so another control host need not wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,
	})
	return m, err
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
