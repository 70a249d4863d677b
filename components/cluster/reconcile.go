package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
)

// Finalizer on an OpenStackCluster: nothing is made for it before this was written.
const Finalizer = "regiond.dev/openstack"

// Controller brings clusters to their declared state.
type Controller struct {
	// Client may read from a cache that lags, but not Secrets.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Client
	// Metadata of the hosts' Secrets, from a cache.
	Metadata client.Reader
	// Region as it was when regiond started: networks and folders take effect at a start (region.AtStart).
	Region *region.Region
	// DataDir of the control plane.
	DataDir string
	// Templates that clusters are pinned to.
	Templates *plan.Templates
	// Compose says by templates what a cluster is to be, given the last state, which may be nil.
	Compose func(c *openstack.Composer, in openstack.Input, last *openstack.State) (*openstack.State, error)
	// Cloud is how the services themselves are asked.
	Cloud Cloud
	// Space of the disk that a folder is on, in bytes.
	Space func(path string) (free, size uint64, err error)
	// Own makes a folder with an owner and a mode.
	Own func(Folder) error
	// Pin keeps the images of a set on this host.
	Pin func(context.Context, oci.Set) error
	// Events are the history of clusters and their hosts.
	Events event.Recorder
	Now    func() time.Time
	Log    *slog.Logger

	metrics metrics
	memory  memory
}

// Cloud asks the services of a cluster.
type Cloud interface {
	// Login gets a session for those probes that need one.
	Login(ctx context.Context, t gate.Target) (*cloud.Session, error)
	// Probe passes a gate, or says why not. The session may be nil for gates that need none.
	Probe(ctx context.Context, name string, t gate.Target, s *cloud.Session) error
	// Ensure brings the catalogue to what is declared, and says what it changed.
	Ensure(ctx context.Context, s *cloud.Session, c cloud.Catalogue) ([]string, error)
	// EnsureHostUsers brings the users of compute hosts to what is desired, and says what it changed.
	EnsureHostUsers(ctx context.Context, t gate.Target, s *cloud.Session, h HostUsers) ([]string, error)
	// Prune removes endpoints from the catalogue that regiond made and that are no longer declared, and says which.
	Prune(ctx context.Context, s *cloud.Session, c cloud.Catalogue) ([]string, error)
	// Hosts are what Nova and Neutron know of compute hosts, by name.
	Hosts(ctx context.Context, t gate.Target, s *cloud.Session) (map[string]gate.Host, error)
	// Ask what a cluster knows of one host, its guests above all.
	Ask(ctx context.Context, t gate.Target, s *cloud.Session, cluster, host string) (*computehost.Cloud, error)
	// Close disables the compute service of a host; Open enables it again.
	Close(ctx context.Context, c *computehost.Cloud, host, reason string) error
	Open(ctx context.Context, t gate.Target, s *cloud.Session, service string) error
	// Forget deletes what the cluster knows of a host. Its compute service MUST NOT run.
	Forget(ctx context.Context, c *computehost.Cloud, host string) error
}

// reconciliation is one pass over one cluster: observe, decide, execute, report.
type reconciliation struct {
	*Controller
	cluster *region.OpenStackCluster
	seen    *observations
	log     *slog.Logger

	// composer has the templates that the cluster is pinned to, nil if they are not known.
	composer *openstack.Composer
	state    *openstack.State
	input    openstack.Input
	target   gate.Target
	// reachable: the target has all that probes need.
	reachable bool
	facts     Facts
	// incarnations of pods by the name of their workload.
	incarnations map[string][]string
}

// Reconcile observes, decides, executes and writes the status.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if early := c.memory.early(req.Name, c.Now()); early > 0 {
		return ctrl.Result{RequeueAfter: early}, nil
	}
	cluster := &region.OpenStackCluster{}
	if err := c.Live.Get(ctx, req.NamespacedName, cluster); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.metrics.gone(req.Name)
			c.memory.gone(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return c.remove(ctx, cluster)
	}
	if before := cluster.DeepCopy(); controllerutil.AddFinalizer(cluster, Finalizer) {
		if err := c.Live.Patch(ctx, cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	t := &reconciliation{Controller: c, cluster: cluster, seen: c.memory.of(cluster.UID), log: c.Log.With(slog.String("cluster", cluster.Name))}
	if err := t.observe(ctx); err != nil {
		c.metrics.failed(cluster.Name, "observe")
		return ctrl.Result{}, fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	d := Decide(t.facts, c.Now())
	if err := t.execute(ctx, d); err != nil {
		if ctx.Err() != nil {
			return ctrl.Result{}, ctx.Err()
		}
		c.metrics.failed(cluster.Name, "act")
		t.log.Warn("could not apply", slog.Any("error", err))
		t.facts.Trouble = &Trouble{Reason: region.ReasonApplyFailed, Message: clip(err.Error())}
	}
	t.probe(ctx, d.Probe)
	after := Decide(t.facts, c.Now())
	if err := t.report(ctx, after); err != nil {
		return ctrl.Result{}, fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	return ctrl.Result{RequeueAfter: pause(d, after)}, nil
}

// pause until the next reconciliation, if nothing happens first: after is what was decided after the decision d was carried out.
func pause(d, after Decision) time.Duration {
	if len(after.Apply) > len(d.Apply) || len(after.Configure) > len(d.Configure) || len(after.Probe) > 0 {
		return floor // what was proved lets others begin
	}
	return max(after.After, floor)
}

// report writes the status if it changed, and logs and counts what did.
func (t *reconciliation) report(ctx context.Context, d Decision) error {
	before := t.cluster.DeepCopy()
	s := &t.cluster.Status
	applyConditions(s, d.Conditions, t.Now())
	s.ObservedGeneration, s.Services, s.FernetKeys = t.cluster.Generation, d.Services, d.FernetKeys
	summarise(s, d.Nodes)
	if err := t.reportHosts(ctx, d.Nodes); err != nil {
		return err
	}
	t.metrics.conditions(t.cluster.Name, s.Conditions)
	if equality.Semantic.DeepEqual(before.Status, *s) {
		return nil
	}
	if err := t.Live.Status().Patch(ctx, t.cluster, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, n := range event.Conditions(t.Events, t.cluster, before.Status.Conditions, s.Conditions) {
		t.log.Info("condition changed", slog.String("condition", n.Type), slog.String("status", string(n.Status)),
			slog.String("reason", n.Reason), slog.String("message", n.Message))
	}
	return nil
}

// remove takes away all that was made for a cluster but the folders with its data, and then lets it go.
func (c *Controller) remove(ctx context.Context, cluster *region.OpenStackCluster) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(cluster, Finalizer) {
		return ctrl.Result{}, nil
	}
	gone, err := c.removeObjects(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("OpenStack cluster %s: remove: %w", cluster.Name, err)
	}
	if !gone {
		return ctrl.Result{RequeueAfter: 2 * time.Second}, nil
	}
	if err := errors.Join(c.clearHosts(ctx, cluster.Name), c.letGo(cluster.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, Finalizer)
	if err := c.Live.Patch(ctx, cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	c.memory.forget(cluster.UID)
	c.metrics.gone(cluster.Name)
	event.Act(c.Events, cluster, "Removed", "all objects of the cluster are removed; its data is kept in "+openstack.DataDir(c.DataDir, cluster.Name), nil)
	c.Log.Info("OpenStack cluster removed; its data is kept", slog.String("cluster", cluster.Name), slog.String("uid", string(cluster.UID)),
		slog.String("data", openstack.DataDir(c.DataDir, cluster.Name)))
	return ctrl.Result{}, nil
}
