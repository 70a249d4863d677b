package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/span"
)

// Every is how often the ranges are searched; each time is spread by a tenth.
const Every = 5 * time.Minute

// Discovery searches the region's ranges for BMCs.
type Discovery struct {
	Client client.Client
	// Live reads from the API server itself, so that no BMC is taken for new because a cache lags.
	Live       client.Reader
	RegionName string
	// Scan returns those of the addresses where a BMC answers without credentials.
	Scan func(ctx context.Context, addresses []netip.AddrPort) ([]netip.AddrPort, error)
	// Identify logs in and asks a BMC who it is. A BMC that refuses that for good becomes a Server, whose
	// conditions say why: nothing else would be seen of it.
	Identify func(ctx context.Context, a bmc.Target) (region.BMCStatus, error)
	// Events are the history of servers.
	Events event.Recorder
	Log    *slog.Logger

	answered *prometheus.GaugeVec

	// What follows is counted again after a restart; that costs time, nothing else. One search runs at a time.

	// silent counts the searches in a row in which a BMC claimed to be a server whose own address was silent.
	silent map[types.UID]int
	// failed counts the searches in a row in which a BMC answered and did not say who it is.
	failed map[netip.AddrPort]int
}

// SetupWithManager registers it: at start, at changes of the region's spec, and periodically.
func (d *Discovery) SetupWithManager(m ctrl.Manager, registry prometheus.Registerer) error {
	if d.Client == nil || d.Live == nil || d.RegionName == "" || d.Scan == nil || d.Identify == nil || d.Events == nil || d.Log == nil {
		return errors.New("discovery: Client, Live, RegionName, Scan, Identify, Events and Log are needed")
	}
	d.answered = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "regiond_discovery_bmcs", Help: "BMCs in the last search by result."}, []string{"result"})
	if registry != nil {
		if err := registry.Register(d.answered); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(m).Named("discovery").
		For(&region.Region{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}, named(d.RegionName))).
		Complete(leadership.Reconciler(span.Reconciler("discovery", d)))
}

// Reconcile searches once.
func (d *Discovery) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reg := &region.Region{}
	if err := d.Live.Get(ctx, req.NamespacedName, reg); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := d.search(ctx, reg); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: Every - Every/10 + rand.N(Every/5)}, nil
}

func (d *Discovery) search(ctx context.Context, reg *region.Region) error {
	var servers region.ServerList
	if err := d.Live.List(ctx, &servers); err != nil {
		return fmt.Errorf("discovery: list servers: %w", err)
	}
	list, err := targets(reg, servers.Items)
	if err != nil {
		return err
	}
	claims := claims{}
	if len(list) > 0 {
		if err := d.searchTargets(ctx, list, claims); err != nil {
			return err
		}
	}
	return d.withdraw(ctx, servers.Items, claims)
}

// claims are the servers that a BMC at another address says to be, in this search.
type claims map[types.UID]bool

func (d *Discovery) searchTargets(ctx context.Context, list []target, claimed claims) error {
	credentials := map[netip.AddrPort]string{}
	var addresses []netip.AddrPort
	for _, t := range list {
		credentials[t.address] = t.credentials
		addresses = append(addresses, t.address)
	}
	present, err := d.Scan(ctx, addresses)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	failed := map[netip.AddrPort]int{}
	var known []found
	for _, ap := range present {
		f, err := d.identify(ctx, target{ap, credentials[ap]})
		if err != nil {
			failed[ap] = d.failed[ap] + 1
			d.Log.Warn("discovery: BMC does not say who it is", slog.String("bmc", ap.String()), slog.Int("searches", failed[ap]), slog.Any("error", err))
			if !final(err) && failed[ap] < silentSearches || errors.Is(err, errNoCredentials) {
				continue // tried again at the next search
			}
		}
		known = append(known, f)
	}
	d.failed = failed
	made := 0
	for _, f := range known {
		created, err := d.take(ctx, f, known, claimed)
		if err != nil {
			// One BMC that misbehaves must not keep the others from being found.
			d.Log.Warn("discovery: BMC not taken, it is tried again at the next search", slog.String("bmc", f.address.String()), slog.Any("error", err))
		}
		if created {
			made++
		}
	}
	d.answered.WithLabelValues("new").Set(float64(made))
	d.answered.WithLabelValues("answered").Set(float64(len(present)))
	d.Log.Info("discovery: ranges searched", slog.Int("addresses", len(addresses)), slog.Int("answered", len(present)), slog.Int("servers", made))
	return nil
}

var errNoCredentials = errors.New("its credentials are missing")

// final says that a BMC will not say who it is before its credentials are changed.
func final(err error) bool {
	switch bmc.Reason(err) {
	case region.ReasonBMCKeyRequired, region.ReasonBMCKeyRefused:
		return true
	}
	return bmc.Refused(err)
}

// identify asks a BMC who it is.
func (d *Discovery) identify(ctx context.Context, t target) (found, error) {
	f := found{target: t}
	secret := &corev1.Secret{}
	if err := d.Live.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: server.CredentialsSecret(t.credentials)}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return f, fmt.Errorf("%w: add %q to hardware.credentials in region.yaml", errNoCredentials, t.credentials)
		}
		return f, fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	identity, err := d.Identify(ctx, server.Target(t.address, region.ProtocolIPMI, secret))
	if err == nil {
		f.identity = identity
	}
	return f, err
}

// take makes a Server for a BMC that answers, unless it is known. all were found in this search.
func (d *Discovery) take(ctx context.Context, f found, all []found, claimed claims) (created bool, err error) {
	var servers region.ServerList
	if err := d.Live.List(ctx, &servers); err != nil {
		return false, err
	}
	verdict := evaluate(f, servers.Items, func(s *region.Server) evidence {
		e := d.examine(ctx, s)
		e.claimants = claimants(s, all)
		return e
	})
	endpoint := region.BMCEndpoint{Address: f.address.Addr().String(), Port: int32(f.address.Port()), Protocol: region.ProtocolIPMI, Credentials: f.credentials}
	for _, s := range verdict.servers {
		claimed[s.UID] = true
		status := metav1.ConditionFalse
		if verdict.verdict == move {
			before := s.DeepCopy()
			s.Spec.BMC = endpoint
			if err := d.Client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
				return false, err
			}
			status = metav1.ConditionTrue
			delete(d.silent, s.UID)
		}
		if err := d.note(ctx, s, metav1.Condition{Type: region.ConditionBMCAddress, Status: status, Reason: verdict.reason, Message: verdict.message}); err != nil {
			return false, err
		}
	}
	if verdict.verdict != create {
		return false, nil
	}
	s := &region.Server{
		ObjectMeta: metav1.ObjectMeta{Name: Name(f.identity, f.address), Labels: map[string]string{server.SourceLabel: server.SourceDiscovery}},
		Spec:       region.ServerSpec{BMC: endpoint},
	}
	if err := d.Client.Create(ctx, s); err != nil {
		return false, err
	}
	event.Act(d.Events, s, "Discovered", "its BMC answered at "+f.address.String(), nil)
	d.Log.Info("discovery: server created", slog.String("server", s.Name), slog.String("bmc", f.address.String()), slog.String("product", f.identity.Product),
		slog.String("serial", f.identity.SerialNumber), slog.String("uuid", f.identity.SystemUUID))
	return true, nil
}

// claimants are how many of the BMCs that were found say that they are a server's.
func claimants(s *region.Server, all []found) int {
	keys := server.BMCKeys(s)
	n := 0
	for i := range all {
		if server.KeysOfBMC(&all[i].identity).Compare(keys) == fingerprint.Same {
			n++
		}
	}
	return n
}

// examine asks the BMC address that is recorded for a server.
func (d *Discovery) examine(ctx context.Context, s *region.Server) evidence {
	if old, ok := server.Endpoint(s.Spec.BMC); ok {
		if answers, err := d.Scan(ctx, []netip.AddrPort{old}); err != nil || len(answers) > 0 { // when unsure, nothing is changed
			delete(d.silent, s.UID)
			return evidence{answers: true}
		}
	}
	if d.silent == nil {
		d.silent = map[types.UID]int{}
	}
	d.silent[s.UID]++
	return evidence{silent: d.silent[s.UID]}
}

// note writes a server's condition if it changed, and logs it then.
func (d *Discovery) note(ctx context.Context, s *region.Server, c metav1.Condition) error {
	before := s.DeepCopy()
	c.ObservedGeneration = s.Generation
	if !meta.SetStatusCondition(&s.Status.Conditions, c) {
		return nil
	}
	d.Log.Warn("discovery: BMC address of a known server", slog.String("server", s.Name), slog.String("reason", c.Reason), slog.String("message", c.Message))
	event.Conditions(d.Events, s, before.Status.Conditions, s.Status.Conditions)
	return d.Client.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// withdraw takes back what no BMC claims any more. That a BMC moved stays to be seen.
func (d *Discovery) withdraw(ctx context.Context, servers []region.Server, claimed claims) error {
	var errs []error
	for i := range servers {
		s := &servers[i]
		if claimed[s.UID] {
			continue
		}
		delete(d.silent, s.UID)
		before := s.DeepCopy()
		if meta.IsStatusConditionFalse(s.Status.Conditions, region.ConditionBMCAddress) && meta.RemoveStatusCondition(&s.Status.Conditions, region.ConditionBMCAddress) {
			errs = append(errs, client.IgnoreNotFound(d.Client.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))))
		}
	}
	return errors.Join(errs...)
}
