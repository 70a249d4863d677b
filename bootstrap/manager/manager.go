// Package manager makes the one controller-runtime manager of a regiond process. Rooms add their controllers to it by a Setup of
// their own; this package knows none of them. What all of them share is decided here: the kinds that are known, what is cached of
// them, the metrics, and the election that lets the controllers of one control host act at a time.
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

// Cached says for kinds of which only some objects are cached which those are. Of other kinds all objects are.
type Cached map[client.Object]cache.ByObject

// Config configures the manager.
type Config struct {
	// REST is the API server, with all rights.
	REST *rest.Config
	// Host is this control host's name, by which it holds the Lease. No two control hosts of a region MAY have the same.
	Host string
	// Cached is what each room reads. Two rooms MUST NOT name the same kind: one of them would see other objects than it expects.
	Cached []Cached
	// MetricsAddress to serve Prometheus metrics, /healthz and /readyz on, e.g. 127.0.0.1:9440. Empty: not served.
	MetricsAddress string
	Log            *slog.Logger
}

// New returns the manager. What is added to it runs when this host holds the Lease, unless it says
// by NeedLeaderElection that it runs on every control host.
func New(c Config) (manager.Manager, error) {
	if c.REST == nil || c.Host == "" || c.Log == nil {
		return nil, errors.New("controller manager: REST, Host and Log are needed")
	}
	conf := rest.CopyConfig(c.REST)
	conf.QPS = -1 // the API server's own priority and fairness is the limit
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
		metrics = "0" // controller-runtime's word for none
	}
	again := true // a set-up that is tried again after a failure adds a controller of the same name
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
		// Controllers have ended by then, and another control host need not wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,
	})
	return m, err
}

// merge the rooms' selections of objects.
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
				return nil, fmt.Errorf("two rooms say what is cached of %s; one of them must have a cache of its own", gvk.Kind)
			}
			seen[gvk] = true
			all[o] = which
		}
	}
	return all, nil
}
