// Package cluster runs the control plane on this host: it runs the applets of package kube as
// supervised processes, and handles certificates, configuration files, the order of start,
// readiness and removal. It does not import the components.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// Config describes the control plane of one host.
type Config struct {
	// ID of the region; see datadir.Owner.
	ID string
	// NodeName is the node's name in Kubernetes: the host name, in lower case.
	NodeName string
	// Address is the host's management address. It must be configured on the host.
	Address netip.Addr
	// PodCIDR and ServiceCIDR are the cluster's ranges.
	PodCIDR, ServiceCIDR netip.Prefix
	// Nameservers resolve names outside the cluster for pods. Default: those in the host's
	// resolv.conf.
	Nameservers []netip.Addr
	// DataDir holds all persistent data.
	DataDir string
	// PKI is loaded from DataDir/pki.
	PKI *pki.PKI
	// PayloadDir is the folder that payload.Extract returned.
	PayloadDir string
	// Executable is the binary with the applets. Default: this binary.
	Executable string
	// Clock for the renewal of certificates. Default: real time.
	Clock clock.Clock
	Log   *slog.Logger
}

// Cluster is a running control plane.
type Cluster struct {
	config     Config
	node       config.Node
	supervisor *supervisor.Supervisor
	renewal    *renewal
	tables     tables
	client     kubernetes.Interface
	rest       *rest.Config
	done       chan struct{}
	err        error // set before done is closed
}

// Start writes certificates and configuration and starts the components. It returns without waiting
// until they are ready; see Wait. When the context ends, they are stopped in reverse order, pods
// stay, and Done is closed after the last one.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	if c.Executable == "" {
		c.Executable = "/proc/self/exe" // still this binary, even after an upgrade has replaced the file
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	cluster := &Cluster{config: c, done: make(chan struct{})}
	if err := cluster.prepare(); err != nil {
		return nil, err
	}
	var err error
	cluster.supervisor, err = supervisor.New(supervisor.Config{
		RunDir: datadir.Run.In(c.DataDir),
		LogDir: datadir.Log.In(c.DataDir),
		Log:    c.Log,
	}, cluster.components())
	if err != nil {
		return nil, err
	}
	if cluster.renewal, err = cluster.newRenewal(); err != nil {
		return nil, err
	}
	go cluster.run(ctx)
	return cluster, nil
}

// prepare writes everything that must exist before the first component starts.
func (c *Cluster) prepare() error {
	nodePods, err := config.FirstNodePodCIDR(c.config.PodCIDR)
	if err != nil {
		return err
	}
	certificates, err := issue(c.config)
	if err != nil {
		return err
	}
	host, err := detect(c.config.ID)
	if err != nil {
		return err
	}
	c.node = config.Node{
		ID:           c.config.ID,
		Name:         c.config.NodeName,
		Address:      c.config.Address,
		PodCIDR:      c.config.PodCIDR,
		NodePodCIDR:  nodePods,
		ServiceCIDR:  c.config.ServiceCIDR,
		DataDir:      c.config.DataDir,
		PayloadDir:   c.config.PayloadDir,
		SandboxImage: payload.ImagePause,
		PKI:          c.config.PKI,
		Certificates: certificates,
		Host:         host,
	}
	if err := makeFolders(c.node); err != nil {
		return err
	}
	if err := writeKubeconfigs(c.node); err != nil {
		return err
	}
	if err := writeEncryptionKey(c.node.EncryptionFile()); err != nil {
		return err
	}
	files, err := c.node.Files()
	if err != nil {
		return err
	}
	resolv, err := resolvConf(c.config.Nameservers)
	if err != nil {
		return err
	}
	files = append(files, config.File{Path: c.node.ResolvConf(), Content: resolv})
	for _, f := range files {
		if err := writeFile(f.Path, f.Content, 0o644); err != nil {
			return err
		}
	}
	if err := prepareHost(c.node); err != nil {
		return err
	}
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.node.Kubeconfig("regiond")); err != nil {
		return fmt.Errorf("reading our own kubeconfig: %w", err)
	}
	c.rest.UserAgent = "regiond"
	// The API server is on this host, so ignore any proxy in the environment.
	c.rest.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	// All controllers share this client; the default of 5 requests per second is meant for people.
	c.rest.QPS, c.rest.Burst = 100, 200
	if c.client, err = kubernetes.NewForConfig(c.rest); err != nil {
		return fmt.Errorf("creating a client for the API server: %w", err)
	}
	return nil
}

// run runs the supervisor until the context ends.
func (c *Cluster) run(ctx context.Context) {
	defer close(c.done)
	background, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	for _, task := range []func(context.Context){c.keepNode, c.keepTables, c.renewal.run} {
		ended.Go(func() { task(background) })
	}
	c.err = c.supervisor.Run(ctx)
	stop()
	ended.Wait()
}

// Done is closed when the components have stopped; Err then says whether they failed to start.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err returns why the cluster ended before its context, nil otherwise. Valid after Done.
func (c *Cluster) Err() error { return c.err }

// Wait waits until every component is ready and the node is Ready and schedulable.
func (c *Cluster) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-c.done:
			cancel(errors.Join(errors.New("the control plane has been stopped"), c.err))
		}
	}()
	if err := c.supervisor.WaitReady(ctx); err != nil {
		return err
	}
	return c.waitNode(ctx)
}

// Components returns the state of the components, in the order in which they start.
func (c *Cluster) Components() []supervisor.Component {
	all := c.supervisor.Snapshot()
	if problem := c.tables.problem(); problem != "" {
		for i := range all {
			if all[i].Name == proxyComponent {
				all[i].Ready, all[i].Problem = false, problem
			}
		}
	}
	return all
}

// REST returns a client configuration with all permissions, for regiond's own controllers. It
// follows renewed certificates.
func (c *Cluster) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// URL returns the URL of the API server for other hosts.
func (c *Cluster) URL() string { return c.node.URL() }

func makeFolders(n config.Node) error {
	if err := os.MkdirAll(n.DataDir, 0o755); err != nil {
		return fmt.Errorf("preparing the data directory: %w", err)
	}
	for _, folder := range []datadir.Name{datadir.Config, datadir.CNI, datadir.Containerd, datadir.Etcd, datadir.Kubelet, datadir.Log, datadir.Run} {
		if err := folder.Make(n.DataDir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(n.RegistryDir(), 0o755); err != nil {
		return fmt.Errorf("preparing the data directory: %w", err)
	}
	if err := os.MkdirAll(n.PodLogs(), 0o750); err != nil {
		return fmt.Errorf("preparing the data directory: %w", err)
	}
	return nil
}
