// Package cluster brings OpenStack clusters to their declared state, gate by gate, and reports it.
// Each reconciliation observes, decides (Decide is pure) and executes in a fixed order. Nothing of
// its progress is stored: what it keeps in memory are observations, which a process that was just
// started makes again.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/span"
)

// Config of the OpenStack side of a region.
type Config struct {
	// Region as stored when regiond started. Clusters of it that are not there are created then; later
	// they are read from the API server.
	Region *region.Region
	// DataDir of the control plane: databases are below it.
	DataDir string
	// Pin keeps the images of a set on this host, pulled and safe from the kubelet's garbage collection.
	Pin func(context.Context, oci.Set) error
	// Registry of the metrics. Default: that of controller-runtime, which is what the manager serves.
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Cached is what the controller reads of Kubernetes' own kinds: the objects of OpenStack clusters.
// Secrets and ConfigMaps are large: of them only metadata is in a cache, see reads.go.
func Cached() map[client.Object]cache.ByObject {
	only := cache.ByObject{Label: ours()}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: only, &appsv1.StatefulSet{}: only, &appsv1.ReplicaSet{}: only, &batchv1.Job{}: only,
		&corev1.Pod{}: only, &corev1.Service{}: only,
	}
}

// Setup adds what creates the region's clusters and keeps them to a manager, whose cache has what
// Cached says. A region without clusters costs a watch. A call that the API server refuses ends
// neither the manager nor the process, which serves DHCP, installers and the API server itself: it
// is tried again.
func Setup(m manager.Manager, c Config) error {
	if c.Region == nil || c.DataDir == "" || c.Pin == nil || c.Log == nil {
		return errors.New("openstack: Region, DataDir, Pin and Log are needed")
	}
	if c.Registry == nil {
		c.Registry = ctrlmetrics.Registry
	}
	log := c.Log.With(slog.String("component", "openstack"))
	options := client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), HTTPClient: m.GetHTTPClient()}
	live, err := client.New(m.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("openstack: %w", err)
	}
	options.Cache = &client.CacheOptions{Reader: m.GetCache(), DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
	lagging, err := client.New(m.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("openstack: %w", err)
	}
	// The manager's cache may hold Secrets of others, as a whole.
	metadata, err := cache.New(m.GetConfig(), cache.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), HTTPClient: m.GetHTTPClient(),
		DefaultLabelSelector: ours()})
	if err != nil {
		return fmt.Errorf("openstack: %w", err)
	}
	controller := &Controller{Client: lagging, Live: live, Metadata: metadata, Region: c.Region, DataDir: c.DataDir,
		Compose: (*openstack.Composer).Next, Cloud: Prober{Log: c.Log}, Space: freeSpace, Own: ownFolder, Pin: c.Pin,
		Events: m.GetEventRecorder("regiond-openstack"), Now: time.Now, Log: log}
	start := func(ctx context.Context) error {
		if err := unchecked(ctx, live, time.Now()); err != nil {
			return err
		}
		templates, err := plan.NewTemplates(live)
		if err != nil {
			return err
		}
		controller.Templates = templates
		return controller.setup(m, metadata, c.Registry)
	}
	return errors.Join(
		m.Add(metadata),
		m.Add(retried(log, "the start of the controller of OpenStack clusters", start)),
		m.Add(retried(log, "creating the declared clusters", func(ctx context.Context) error { return Declare(ctx, live, c.Region.Name) })),
	)
}

// retried makes a step of the start a part of a manager that it can't end.
func retried(log *slog.Logger, what string, step func(context.Context) error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		retry(ctx, log, what, step)
		return nil
	}
}

// unchecked marks all conditions of clusters as Unknown: what they say is what an earlier process saw, and the host may have been
// restarted since. A condition that is True and became so after this process has started is one that this process has seen.
func unchecked(ctx context.Context, c client.Client, now time.Time) error {
	var list region.OpenStackClusterList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		before := o.DeepCopy()
		o.Unchecked(now.Add(time.Second), now)
		if equality.Semantic.DeepEqual(before.Status, o.Status) {
			continue
		}
		if err := c.Status().Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("OpenStack cluster %s: %w", o.Name, err)
		}
	}
	return nil
}

// Declare creates the clusters that a region declares and does not have yet. Those that are there
// change by `regiond apply` only, and one that is no longer declared is left alone: a control plane
// with its databases is not removed because a line was. The declaration is the stored one: an
// attempt that is repeated does not bring back what an apply has removed meanwhile.
//
// One cluster's trouble, such as a missing folder of patches, is not another's. The error is that of all.
func Declare(ctx context.Context, c client.Client, name string) error {
	r := &region.Region{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, r); err != nil {
		return fmt.Errorf("region %s: %w", name, err)
	}
	var errs []error
	for i := range r.Spec.OpenStack.Clusters {
		one := *r
		one.Spec.OpenStack.Clusters = r.Spec.OpenStack.Clusters[i : i+1]
		if err := declareOne(ctx, c, &one); err != nil {
			errs = append(errs, fmt.Errorf("OpenStack cluster %s is not created: %w", r.Spec.OpenStack.Clusters[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// declareOne creates the only cluster of a region, unless it is there: then its patches are those of its last apply.
func declareOne(ctx context.Context, c client.Client, r *region.Region) error {
	err := c.Get(ctx, client.ObjectKey{Name: r.Spec.OpenStack.Clusters[0].Name}, &region.OpenStackCluster{})
	if err == nil || client.IgnoreNotFound(err) != nil {
		return err
	}
	clusters, err := openstack.Clusters(r, openstack.ReadPatches)
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for _, cluster := range clusters {
		u, err := cluster.Desired()
		if err != nil {
			return err
		}
		objects = append(objects, u)
	}
	_, err = rollout.Apply(ctx, c, objects)
	return err
}

// ours selects the objects of OpenStack clusters.
func ours() labels.Selector {
	r, err := labels.NewRequirement(openstack.LabelCluster, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // the label is a constant
	}
	return labels.NewSelector().Add(*r)
}

// Init checks what the controller was given, and registers its metrics.
func (c *Controller) Init(registry prometheus.Registerer) error {
	if c.Client == nil || c.Live == nil || c.Metadata == nil || c.Region == nil || c.DataDir == "" || c.Templates == nil || c.Compose == nil || c.Cloud == nil ||
		c.Space == nil || c.Own == nil || c.Pin == nil || c.Events == nil || c.Now == nil || c.Log == nil {
		return errors.New("openstack controller: every field must be set")
	}
	return c.metrics.register(registry)
}

// syncTimeout of the controller's caches is not a limit: an API server that does not answer ends no other service.
const syncTimeout = 100 * 365 * 24 * time.Hour

// setup registers the controller and its watches.
func (c *Controller) setup(m ctrl.Manager, metadata cache.Cache, registry prometheus.Registerer) error {
	if err := c.Init(registry); err != nil {
		return err
	}
	labelled := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if name := o.GetLabels()[openstack.LabelCluster]; name != "" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
		}
		return nil
	})
	every := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list region.OpenStackClusterList
		if err := c.Client.List(ctx, &list); err != nil {
			c.Log.Error("list OpenStack clusters", slog.Any("error", err))
			return nil // the periodic reconciliation finds it too
		}
		var all []reconcile.Request
		for _, o := range list.Items {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: o.Name}})
		}
		return all
	})
	ofHosts := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == host.Namespace })
	return ctrl.NewControllerManagedBy(m).
		For(&region.OpenStackCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.Deployment{}, labelled).
		Watches(&appsv1.StatefulSet{}, labelled).
		Watches(&batchv1.Job{}, labelled).
		Watches(&corev1.Pod{}, labelled).
		Watches(&corev1.Service{}, labelled).
		Watches(&region.Host{}, every).
		WatchesRawSource(source.Kind(metadata, metadataOf("Secret"), every, ofHosts)).
		WatchesRawSource(source.Kind(metadata, metadataOf("Secret"), labelled, predicate.Not(ofHosts))).
		WatchesRawSource(source.Kind(metadata, metadataOf("ConfigMap"), labelled)).
		Named("openstackcluster").
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 2, CacheSyncTimeout: syncTimeout,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 30*time.Second)}).
		Complete(leadership.Reconciler(span.Reconciler("openstackcluster", c)))
}

// metadataOf is what a watch of a core kind's metadata asks for.
func metadataOf(kind string) client.Object {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}
