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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
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
	// Identify logs in and asks a BMC who it is. An error that is server.ErrCredentials is not tried again
	// here: the Server object that is made for it carries the refusal.
	Identify func(ctx context.Context, a bmc.Target) (region.BMCStatus, error)
	Log      *slog.Logger

	answered *prometheus.GaugeVec
}

// SetupWithManager registers it: at start, at changes of the region's spec, and periodically.
func (d *Discovery) SetupWithManager(m ctrl.Manager, registry prometheus.Registerer) error {
	if d.Client == nil || d.Live == nil || d.RegionName == "" || d.Scan == nil || d.Identify == nil || d.Log == nil {
		return errors.New("discovery: Client, Live, RegionName, Scan, Identify and Log are needed")
	}
	d.answered = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "regiond_discovery_bmcs", Help: "BMCs in the last search by result."}, []string{"result"})
	if registry != nil {
		if err := registry.Register(d.answered); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(m).Named("discovery").
		For(&region.Region{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}, named(d.RegionName))).
		Complete(d)
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
	if err != nil || len(list) == 0 {
		return err
	}
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
	made := 0
	for _, ap := range present {
		created, err := d.take(ctx, target{ap, credentials[ap]})
		if err != nil {
			// One BMC that misbehaves must not keep the others from being found.
			d.Log.Warn("discovery: BMC not taken, it is tried again at the next search", slog.String("bmc", ap.String()), slog.Any("error", err))
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

// take makes a Server for a BMC that answers, unless it is known.
func (d *Discovery) take(ctx context.Context, t target) (created bool, err error) {
	secret := &corev1.Secret{}
	if err := d.Live.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: server.CredentialsSecret(t.credentials)}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return false, fmt.Errorf("its credentials %q are missing; add them to hardware.credentials in region.yaml", t.credentials)
		}
		return false, err
	}
	f := found{target: t}
	f.identity, err = d.Identify(ctx, server.Target(t.address, region.ProtocolIPMI, secret))
	refusedCredentials := errors.Is(err, server.ErrCredentials)
	if err != nil && !refusedCredentials {
		return false, err
	}
	var servers region.ServerList
	if err := d.Live.List(ctx, &servers); err != nil {
		return false, err
	}
	v, known, why := judge(f, servers.Items, func(ap netip.AddrPort) bool {
		answers, err := d.Scan(ctx, []netip.AddrPort{ap})
		return err != nil || len(answers) > 0 // unsure is no reason to change anything
	})
	endpoint := region.BMCEndpoint{Address: t.address.Addr().String(), Port: int32(t.address.Port()), Protocol: region.ProtocolIPMI, Credentials: t.credentials}
	switch v {
	case refused:
		return false, fmt.Errorf("server %s: %s", known.Name, why)
	case move:
		before := known.DeepCopy()
		known.Spec.BMC = endpoint
		d.Log.Info("discovery: a known server's BMC has a new address", slog.String("server", known.Name), slog.String("bmc", t.address.String()), slog.String("before", before.Spec.BMC.Address))
		return false, d.Client.Patch(ctx, known, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	s := &region.Server{
		ObjectMeta: metav1.ObjectMeta{Name: Name(f.identity, t.address), Labels: map[string]string{server.SourceLabel: server.SourceDiscovery}},
		Spec:       region.ServerSpec{BMC: endpoint},
	}
	if err := d.Client.Create(ctx, s); err != nil {
		return false, err
	}
	d.Log.Info("discovery: server created", slog.String("server", s.Name), slog.String("bmc", t.address.String()), slog.String("product", f.identity.Product),
		slog.String("serial", f.identity.SerialNumber), slog.String("uuid", f.identity.SystemUUID), slog.Bool("credentialsRefused", refusedCredentials))
	return true, nil
}
