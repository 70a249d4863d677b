// Package hardware turns machines that are known by their BMCs into installed servers: it finds the
// BMCs, netboots the machines, tells their installers what to do, and lets the installed systems'
// agents join. Setup binds the parts, which are packages of their own, together.
package hardware

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"regiond.dev/regiond/hardware/credentials"
	"regiond.dev/regiond/hardware/discovery"
	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/netboot"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/hardware/sightings"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// Config of the hardware side of a region.
type Config struct {
	// Region as stored. Only its name, networks and files of credentials are taken from here; everything else is read from the
	// API server, so that it may change while this runs.
	Region *region.Region
	// DB holds the DHCP leases.
	DB *bbolt.DB
	// ServingCertificate issues the certificate of a server, in files called name, that CA signs. What it returns gives it for each
	// handshake, so that a renewed one is used at once.
	ServingCertificate func(name, cn string, sans ...string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error)
	// CA certificates (PEM) that sign the enroll API's certificate, the API server's certificate and the hosts' client certificates.
	CA []byte
	// KubernetesURL is how hosts reach the API server, https://address:6443.
	KubernetesURL string
	// ImageDir holds images, see images: node/current is what is installed.
	ImageDir string
	// Guests on the hosts, which are asked about before a host is installed again.
	Guests server.Guests
	// Started is called once the machines of the region are served.
	Started func()
	// ReportProblems is told where to ask for what does not work and is tried again, for status.
	ReportProblems func(source func() []string)
	// Registry of the metrics. Default: that of controller-runtime, which is what the manager serves.
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Cached is what the controllers read: of Secrets those of BMCs and tokens only, and of what each host has its own.
func Cached() map[client.Object]cache.ByObject {
	only := func(namespace string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}:        only(server.Namespace),
		&coordinationv1.Lease{}: only(host.Namespace),
		&rbacv1.Role{}:          only(host.Namespace),
		&rbacv1.RoleBinding{}:   only(host.Namespace),
	}
}

// local is a part that runs whether or not this host holds the Lease of the controllers: it serves an address of this host.
type local func(context.Context) error

func (l local) Start(ctx context.Context) error { return l(ctx) }

func (local) NeedLeaderElection() bool { return false }

// Setup adds everything to a manager, whose cache has what Cached says. The returned function is to
// be called when the manager has ended.
func Setup(ctx context.Context, m manager.Manager, c Config) (release func(), err error) {
	if c.Region == nil || c.DB == nil || c.ServingCertificate == nil || len(c.CA) == 0 || c.KubernetesURL == "" || c.ImageDir == "" || c.Guests == nil ||
		c.Started == nil || c.ReportProblems == nil || c.Log == nil {
		return nil, errors.New("hardware: Region, DB, ServingCertificate, CA, KubernetesURL, ImageDir, Guests, Started, ReportProblems and Log are needed")
	}
	if c.Registry == nil {
		c.Registry = ctrlmetrics.Registry
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("hardware: %w", err)
		}
	}()
	n, err := resolveNetwork(c.Region.Spec.Networks.Provisioning, interfaceOf)
	if err != nil {
		return nil, err
	}
	// Enroll's tokens are used once, so it reads from the API server itself.
	live, err := client.New(m.GetConfig(), client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), HTTPClient: m.GetHTTPClient()})
	if err != nil {
		return nil, err
	}
	events := m.GetEventRecorder("regiond-hardware")
	images := imageDir(c.ImageDir)
	certificate, err := c.ServingCertificate("enroll", "regiond-enroll", n.Address.String())
	if err != nil {
		return nil, fmt.Errorf("certificate of the enrollment API: %w", err)
	}
	enrolling, err := enrollment.New(enrollment.Config{
		Client: live, RegionName: c.Region.Name, GetCertificate: certificate, CA: c.CA,
		URL:           "https://" + netip.AddrPortFrom(n.Address, enroll.Port).String(),
		KubernetesURL: c.KubernetesURL,
		Image:         images.installable("http://" + n.Address.String()),
		Metrics:       c.Registry, Events: events, Log: c.Log.With(slog.String("component", "enroll")),
	})
	if err != nil {
		return nil, err
	}
	machines, err := newBMCs(c.Log.With(slog.String("component", "bmc")), c.Registry)
	if err != nil {
		return nil, err
	}
	n.Sightings = sightings.New(time.Now)
	controller := &server.Controller{Client: m.GetClient(), Live: live, BMCs: machines, Guests: c.Guests, Sightings: n.Sightings, RegionName: c.Region.Name,
		Cleanup: enrolling.Cleanup, Events: events, Log: c.Log.With(slog.String("component", "server"))}
	static := &discovery.Static{Client: m.GetClient(), RegionName: c.Region.Name, Log: c.Log.With(slog.String("component", "discovery"))}
	searching := &discovery.Discovery{Client: m.GetClient(), Live: live, RegionName: c.Region.Name, Scan: scan, Identify: machines.Identify,
		Events: events, Log: c.Log.With(slog.String("component", "discovery"))}
	if err := errors.Join(controller.SetupWithManager(ctx, m, c.Registry), static.SetupWithManager(m), searching.SetupWithManager(m, c.Registry)); err != nil {
		return nil, err
	}

	n.DB, n.Decider = c.DB, decider{enrolling}
	n.Kernel, n.Initramfs = images.path("vmlinuz"), images.path("initramfs")
	n.ImageDir, n.LoaderDir, n.Metrics, n.Log = c.ImageDir, filepath.Join(c.ImageDir, "node", "current", "ipxe"), c.Registry, c.Log.With(slog.String("component", "netboot"))
	serve := func(ctx context.Context) error {
		listener, err := enrollment.Listen(ctx, netip.AddrPortFrom(n.Address, enroll.Port).String())
		if err != nil {
			return err
		}
		parts, ctx := errgroup.WithContext(ctx)
		parts.Go(func() error { return enrolling.Serve(ctx, listener) })
		parts.Go(func() error { return netboot.Run(ctx, n) })
		return parts.Wait()
	}
	if err := errors.Join(m.Add(local(serve)), m.Add(started(n.Address, c.Started))); err != nil {
		return nil, err
	}
	if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error { return limitHosts(ctx, live, c.Log) })); err != nil {
		return nil, err
	}
	if err := importCredentials(ctx, m, live, c); err != nil {
		return nil, err
	}
	c.Log.Info("hardware controllers start", slog.String("region", c.Region.Name), slog.String("provisioning", n.Address.String()), slog.String("interface", n.Interface))
	return func() {
		// Sessions that are left open take up slots of the BMCs for a minute.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := machines.pool.Close(ctx); err != nil {
			c.Log.Warn("some BMC sessions were not ended", slog.Any("error", err))
		}
	}, nil
}

// importCredentials imports the files of credentials, and adds what keeps their Secrets in step with
// them. Files that can't be read do not keep the controllers down: preflight refused them at the
// first start, and later they are repaired while servers go on.
func importCredentials(ctx context.Context, m manager.Manager, c client.Client, conf Config) error {
	importer := credentials.NewImporter(c, conf.Region.Spec.Hardware.Credentials)
	conf.ReportProblems(importer.Problems)
	if err := importer.Sync(ctx); err != nil {
		conf.Log.Error("credentials not imported", slog.Any("error", err))
	}
	return m.Add(local(func(ctx context.Context) error { return importer.Watch(ctx, conf.Log) }))
}

// limitHosts has the API server bound what hosts write, and tries until it has.
func limitHosts(ctx context.Context, c client.Client, log *slog.Logger) error {
	err := wait.PollUntilContextCancel(ctx, limitsRetry, true, func(ctx context.Context) (bool, error) {
		err := host.ApplyLimits(ctx, c)
		if err != nil && ctx.Err() == nil {
			log.Warn("what hosts may write is not limited yet; it is tried again", slog.Any("error", err), slog.Duration("retry", limitsRetry))
		}
		return err == nil, nil
	})
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

// limitsRetry is how often the limits of hosts are written until the API server takes them.
const limitsRetry = 10 * time.Second

// decider answers netbooting machines by the enroll server's tickets.
type decider struct{ *enrollment.Server }

func (d decider) Netboot(ctx context.Context, m netboot.Client) (*netboot.Job, error) {
	ticket, err := d.Server.Netboot(ctx, enrollment.Machine{MAC: m.MAC, UUID: m.UUID, Serial: m.Serial, Address: m.Address})
	if ticket == nil || err != nil {
		return nil, err
	}
	return &netboot.Job{Ticket: *ticket}, nil
}

// resolveNetwork turns the declaration of the provisioning network into netboot's configuration.
func resolveNetwork(p region.ProvisioningNetwork, interfaceOf func(netip.Addr) (string, error)) (netboot.Config, error) {
	fail := func(field, value string, err error) (netboot.Config, error) {
		return netboot.Config{}, fmt.Errorf("spec.networks.provisioning.%s %q: %w", field, value, err)
	}
	n := netboot.Config{Interface: p.Interface, LeaseTime: region.DefaultLeaseTime}
	var err error
	if n.Network, err = netip.ParsePrefix(p.CIDR); err != nil {
		return fail("cidr", p.CIDR, err)
	}
	if n.Address, err = netip.ParseAddr(p.Address); err != nil {
		return fail("address", p.Address, err)
	}
	if p.Gateway != "" {
		if n.Gateway, err = netip.ParseAddr(p.Gateway); err != nil {
			return fail("gateway", p.Gateway, err)
		}
	}
	if n.RangeFirst, n.RangeLast, err = region.ParseRange(p.DHCP.Range); err != nil {
		return fail("dhcp.range", p.DHCP.Range, err)
	}
	if p.DHCP.LeaseTime != nil {
		n.LeaseTime = p.DHCP.LeaseTime.Duration
	}
	for i, s := range p.DNS {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return fail("dns["+strconv.Itoa(i)+"]", s, err)
		}
		n.DNS = append(n.DNS, a)
	}
	for i, s := range p.NTP {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return fail("ntp["+strconv.Itoa(i)+"]", s, err)
		}
		n.NTP = append(n.NTP, a)
	}
	if n.Interface == "" {
		if n.Interface, err = interfaceOf(n.Address); err != nil {
			return fail("address", p.Address, err)
		}
	}
	return n, nil
}

// interfaceOf returns the name of the interface that holds an address.
func interfaceOf(a netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return "", fmt.Errorf("interface %s: %w", i.Name, err)
		}
		for _, have := range addrs {
			if p, err := netip.ParsePrefix(have.String()); err == nil && p.Addr().Unmap() == a {
				return i.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no interface of this host has the address %s; give it to one, or set interface", a)
}
