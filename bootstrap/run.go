package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/addons"
	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/bootstrap/kube/cluster"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/preflight"
	"regiond.dev/regiond/region"
)

// Stages that every start runs, in this order.
var (
	stageHost        = stage{name: "host", doing: "preparing the kernel", done: "kernel prepared"}
	stagePayload     = stage{name: "payload", doing: "unpacking the payload", done: "payload unpacked"}
	stagePKI         = stage{name: "pki", doing: "checking the PKI", done: "PKI checked"}
	stageCluster     = stage{name: "cluster", doing: "starting the control plane", done: "control plane starting"}
	stageAPI         = stage{name: "api", doing: "waiting for the Kubernetes API", done: "Kubernetes API ready"}
	stageDefinitions = stage{name: "definitions", doing: "applying resource definitions", done: "resource definitions applied"}
	stageAddons      = stage{name: "addons", doing: "applying namespaces, roles and CoreDNS", done: "namespaces, roles and CoreDNS applied"}
	stageRegion      = stage{name: "region", doing: "applying the region", done: "region applied"}
	stageNode        = stage{name: "node", doing: "waiting for the node", done: "node ready"}
	stageControllers = stage{name: "controllers"}
)

func (s stage) of(detail string) stage {
	s.detail = detail
	return s
}

// run is one run of a region.
type run struct {
	config       Config
	log          *slog.Logger
	region       *region.Region
	dataDir      string
	node         string
	requirements preflight.Requirements
	journal      *journal.Journal
	state        state

	pki     *pki.PKI
	owner   datadir.Owner
	payload string
	cluster *cluster.Cluster
	client  client.Client
}

// Run makes this host the region's seed host until the context ends. It then stops everything in
// reverse order, except for pods, and returns nil. An error means that the region could not come up
// or continue; everything that was started has been stopped.
func Run(ctx context.Context, c Config) (err error) {
	r := &run{config: c, log: c.Log, region: c.Region}
	if r.requirements, err = requirementsOf(c.Region); err != nil {
		return err
	}
	r.dataDir = r.requirements.DataDir
	if r.node, err = nodeName(); err != nil {
		return err
	}
	report, err := checkHost(ctx, r.requirements, r.region.Spec.Hardware.Credentials, c.CheckCredentials)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return err
	}
	lock, err := datadir.TakeLock(r.dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := datadir.CheckRestored(r.dataDir); err != nil {
		return err
	}
	if r.journal, err = journal.Open(datadir.Journal.In(r.dataDir), now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.Close()) }()
	if err := r.checkIdentity(); err != nil {
		return err
	}
	// Nothing is logged before: the log is in the data directory, which preflight must not create.
	r.reportPreflight(report)
	if err := r.reportInterrupted(); err != nil {
		return err
	}
	r.state.snapshot = daemon.Snapshot{Version: c.Version, Region: r.region.Name, RegionFile: c.RegionFile, PID: os.Getpid(), Started: now().UTC()}
	stopServing := r.serveStatus(ctx)
	defer stopServing()
	return r.up(ctx)
}

// checkIdentity refuses to start if something has changed that must not change.
func (r *run) checkIdentity() error {
	pods, services, err := r.ranges()
	if err != nil {
		return err
	}
	return r.journal.CheckIdentity(journal.Identity{
		Region: r.region.Name, Address: r.requirements.Management.String(), Node: r.node, PodCIDR: pods.String(), ServiceCIDR: services.String(),
	})
}

// ranges returns the ranges of the addresses of pods and Services.
func (r *run) ranges() (pods, services netip.Prefix, err error) {
	if pods, err = netip.ParsePrefix(r.region.Spec.ControlPlane.PodCIDR); err != nil {
		return pods, services, fmt.Errorf("spec.controlPlane.podCIDR: %w", err)
	}
	if services, err = netip.ParsePrefix(r.region.Spec.ControlPlane.ServiceCIDR); err != nil {
		return pods, services, fmt.Errorf("spec.controlPlane.serviceCIDR: %w", err)
	}
	return pods.Masked(), services.Masked(), nil
}

// Preflight checks this host for a region. checkCredentials is that of Config.
func Preflight(ctx context.Context, r *region.Region, checkCredentials func(file string) error) (preflight.Report, error) {
	required, err := requirementsOf(r)
	if err != nil {
		return nil, err
	}
	return checkHost(ctx, required, r.Spec.Hardware.Credentials, checkCredentials)
}

// requirementsOf returns the requirements with links in the data directory's path resolved.
func requirementsOf(r *region.Region) (preflight.Requirements, error) {
	w, err := preflight.RequirementsOf(r)
	if err != nil {
		return w, err
	}
	w.DataDir, err = datadir.Resolve(w.DataDir)
	return w, err
}

func checkHost(ctx context.Context, required preflight.Requirements, files []region.Credential,
	checkCredentials func(file string) error) (preflight.Report, error) {
	var running *preflight.Process
	pid, err := datadir.LockOwner(required.DataDir)
	if err != nil && !errors.Is(err, os.ErrPermission) { // without root, the check "root" fails anyway
		return nil, err
	}
	if pid != 0 {
		p := preflight.Describe("/proc", pid)
		running = &p
	}
	host, err := preflight.Collect(ctx, required, running)
	if err != nil {
		return nil, fmt.Errorf("preflight: %w", err)
	}
	return checkCollected(host, required, files, checkCredentials)
}

// checkForRestart checks the host as it is when this process, which has a region up, has ended.
func checkForRestart(ctx context.Context, r *region.Region, checkCredentials func(file string) error) error {
	required, err := requirementsOf(r)
	if err != nil {
		return err
	}
	self := preflight.Describe("/proc", os.Getpid())
	host, err := preflight.Collect(ctx, required, &self)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	host.Running = nil
	report, err := checkCollected(host, required, r.Spec.Hardware.Credentials, checkCredentials)
	if err != nil {
		return err
	}
	return report.Err()
}

func checkCollected(host preflight.Host, required preflight.Requirements, files []region.Credential,
	checkCredentials func(file string) error) (_ preflight.Report, err error) {
	if host.Foreign, err = foreignEntries(required.DataDir); err != nil && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	for _, f := range files {
		if err := checkCredentials(f.File); err != nil {
			host.Credentials = append(host.Credentials, preflight.CredentialFault{Name: f.Name, Fault: err.Error()})
		}
	}
	return preflight.Check(host, required), nil
}

func (r *run) reportPreflight(report preflight.Report) {
	for _, x := range report {
		if x.Status == preflight.Warn {
			r.log.Warn("preflight", slog.String("check", x.Check), slog.String("found", x.Message), slog.String("fix", x.Fix))
			r.progress(fmt.Sprintf("warning: %s: %s; fix: %s", x.Check, x.Message, x.Fix))
		}
	}
	r.progress("preflight: " + report.Summary())
}

// serveStatus serves `regiond status` until the returned function is called. It outlives ctx, so
// that a stop can be observed.
func (r *run) serveStatus(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := daemon.Serve(ctx, daemon.SocketPath(r.dataDir), r.state.read, r.journal.Copy); err != nil {
			r.log.Error("serve status", slog.Any("error", err))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// up runs the stages and the controllers, and finally stops everything it started in reverse order.
func (r *run) up(ctx context.Context) error {
	if err := r.stage(ctx, stageHost, prepareKernel); err != nil {
		return err
	}
	if err := r.stage(ctx, stagePayload.of(datadir.Bin.In(r.dataDir)), r.extract); err != nil {
		return err
	}
	if err := r.stage(ctx, stagePKI.of(datadir.PKI.In(r.dataDir)), r.loadPKI); err != nil {
		return err
	}
	// The cluster outlives ctx: controllers are stopped first.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	err := r.stage(ctx, stageCluster.of(r.dataDir), func(context.Context) error { return r.startCluster(life) })
	if err != nil {
		return err
	}
	err = r.onCluster(ctx)
	r.state.setReady(false)
	r.state.enter("stopping the control plane", now())
	r.stopping(ctx, "stopping the control plane")
	stop()
	<-r.cluster.Done()
	r.log.Info("the control plane has stopped")
	return errors.Join(err, r.cluster.Err())
}

func (r *run) stopping(ctx context.Context, text string) {
	if ctx.Err() != nil {
		r.progress(text)
	}
}

func (r *run) extract(context.Context) (err error) {
	if err := datadir.Bin.Make(r.dataDir); err != nil {
		return err
	}
	r.payload, err = payload.Extract(datadir.Bin.In(r.dataDir))
	return err
}

func (r *run) loadPKI(context.Context) (err error) {
	if r.pki, err = pki.Load(datadir.PKI.In(r.dataDir)); err != nil {
		return err
	}
	if r.owner, err = datadir.Mark(r.dataDir, datadir.Owner{Region: r.region.Name, UID: r.pki.UID()}); err != nil {
		return err
	}
	r.state.watchPKI(r.pki)
	return nil
}

func (r *run) startCluster(life context.Context) error {
	c, err := r.clusterConfig()
	if err != nil {
		return err
	}
	if r.cluster, err = cluster.Start(life, c); err != nil {
		return err
	}
	r.state.watch(r.cluster.Components)
	return nil
}

func (r *run) clusterConfig() (cluster.Config, error) {
	pods, services, err := r.ranges()
	if err != nil {
		return cluster.Config{}, err
	}
	nameservers, err := r.nameservers()
	if err != nil {
		return cluster.Config{}, err
	}
	return cluster.Config{
		ID: r.owner.ID(), NodeName: r.node, Address: r.requirements.Management, PodCIDR: pods, ServiceCIDR: services,
		Nameservers: nameservers, DataDir: r.dataDir, PKI: r.pki, PayloadDir: r.payload, Log: r.log,
	}, nil
}

// nameservers returns the nameservers for names outside the cluster: the host's own, or else those
// for servers.
func (r *run) nameservers() ([]netip.Addr, error) {
	own, err := cluster.Nameservers(nil)
	if err != nil || len(own) > 0 {
		return own, err
	}
	var given []netip.Addr
	for i, s := range r.region.Spec.Networks.Provisioning.DNS {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("spec.networks.provisioning.dns[%d]: %w", i, err)
		}
		given = append(given, a)
	}
	return given, nil
}

func (r *run) addonValues() (addons.Values, error) {
	c, err := r.clusterConfig()
	return addons.Values{
		DNSAddress: config.DNSIP(c.ServiceCIDR), CoreDNSImage: payload.ImageCoreDNS, Upstreams: c.Nameservers,
	}, err
}
