package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
	"regiond.dev/regiond/region/host"
)

// TestMain lets the heap grow: each world is small, and what the fake client throws away would be collected all the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// world is an API server without controllers, a kubelet that is quick, and a cloud that does as the test says.
type world struct {
	t      *testing.T
	events eventtest.Book
	api    client.Client
	dir    string
	now    time.Time
	free   uint64
	writes []string
	reads  int
	cloud  *testCloud
	// refusedImage is a part of an image name that can't be pulled; failing is a job that fails.
	refusedImage, failing string
	composer              *openstack.Composer
	earlier               []*openstack.Composer
	composed              map[string]*openstack.State
	restarts              int
	// composes counts how often something was rendered, or would have been.
	composes int
	// pinned is the release of the set that was last kept on the host.
	pinned string
	// unrecorded hosts were handed a configuration while their Host did not say that they are given compute services.
	unrecorded []string
	uids       int
	// stubborn: the job that maps hosts succeeds and maps none.
	stubborn bool
	// busy is a job that does not end.
	busy string
	// noOperator is what a call with a verb about an ExternalSecret ends with, nil if it works.
	noOperator func(verb string) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), now: now, free: 50 << 30, cloud: &testCloud{failing: map[string]error{}}, composed: map[string]*openstack.State{}}
	var err error
	if w.composer, err = openstack.Default(); err != nil {
		t.Fatal(err)
	}
	wrote := func(verb string, o client.Object) {
		w.writes = append(w.writes, fmt.Sprintf("%s %T %s", verb, o, o.GetName()))
	}
	w.api = fake.NewClientBuilder().WithScheme(newScheme(t)).WithTypeConverters(converters()...).WithStatusSubresource(&region.OpenStackCluster{}, &region.Host{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.reads++
			if err := w.operator("get", o.GetObjectKind().GroupVersionKind().Kind); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			wrote("create", o)
			if _, secret := o.(*corev1.Secret); secret || o.GetUID() == "" { // one that is restored is another one
				w.uids++
				o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			wrote("delete", o)
			if err := w.operator("delete", o.GetObjectKind().GroupVersionKind().Kind); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := w.operator("apply", w.applied(ctx, c, o)); err != nil {
				return err
			}
			return w.apply(ctx, c, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			wrote("patch "+name, o)
			return c.SubResource(name).Patch(ctx, o, p, opts...)
		},
	}).Build()
	reg := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	reg.Spec.Networks.Provisioning.CIDR = "10.99.0.0/24"
	reg.Spec.ControlPlane.DataDir = w.dir
	reg.Spec.Images.Dir = w.dir
	cluster := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", UID: "c1"}}
	cluster.Spec.Name, cluster.Spec.Release, cluster.Spec.Address = "lab", region.ReleaseEpoxy, "10.99.0.1"
	for _, o := range []client.Object{reg, cluster} {
		if err := w.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.images(true)
	return w
}

// newScheme has not all kinds there are: the fake goes through them for each call.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, region.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// converters are those that a fake client makes for itself, made once.
var converters = sync.OnceValue(func() []managedfields.TypeConverter {
	return []managedfields.TypeConverter{applyconfigurations.NewTypeConverter(clientgoscheme.Scheme), managedfields.NewDeducedTypeConverter()}
})

// apply makes a dry run one: the fake client would write. It is done in another one, where the object is alone.
func (w *world) apply(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	options := client.ApplyOptions{}
	options.ApplyOptions(opts)
	if len(options.DryRun) == 0 {
		return c.Apply(ctx, o, opts...)
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	if err := live.UnmarshalJSON(b); err != nil {
		return err
	}
	alone := fake.NewClientBuilder().WithScheme(w.api.Scheme()).WithTypeConverters(converters()...)
	if err := c.Get(ctx, client.ObjectKeyFromObject(live), live); err == nil {
		alone = alone.WithObjects(live)
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	return alone.Build().Apply(ctx, o, client.ForceOwnership, client.FieldOwner(options.FieldManager))
}

// operator is the error of a call about a kind.
func (w *world) operator(verb, kind string) error {
	if w.noOperator == nil || kind != "ExternalSecret" {
		return nil
	}
	return w.noOperator(verb)
}

// applied looks at what is about to be applied, and says of which kind it is.
func (w *world) applied(ctx context.Context, c client.Client, o runtime.ApplyConfiguration) string {
	b, err := json.Marshal(o)
	w.must(err)
	var of metav1.PartialObjectMetadata
	w.must(json.Unmarshal(b, &of))
	if of.Kind != "Secret" || of.Namespace != host.Namespace {
		return of.Kind
	}
	h := &region.Host{}
	w.must(c.Get(ctx, client.ObjectKey{Name: of.Name}, h))
	if !slices.Contains(h.ComputeOf(), of.Labels[openstack.LabelCluster]) {
		w.unrecorded = append(w.unrecorded, of.Name)
	}
	return of.Kind
}

// images of the release are there, or not.
func (w *world) images(there bool) {
	w.t.Helper()
	file := filepath.Join(w.dir, "oci", "epoxy.json")
	if !there {
		if err := os.Remove(file); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	w.build("epoxy.json", 0)
}

// build writes an image set, each image with a digest that begins at a number.
func (w *world) build(file string, first int) oci.Set {
	w.t.Helper()
	set := oci.Set{Release: "epoxy", Images: map[string]oci.Image{}}
	for i, name := range []string{"mariadb", "rabbitmq", "memcached", "keystone", "placement", "glance", "nova", "neutron", "client"} {
		set.Images[name] = oci.Image{Repository: "openstack/epoxy/" + name, Digest: fmt.Sprintf("sha256:%064d", first+i), Version: "1:" + name}
	}
	b, err := json.Marshal(set)
	w.must(err, os.MkdirAll(filepath.Join(w.dir, "oci"), 0o755), os.WriteFile(filepath.Join(w.dir, "oci", file), b, 0o644))
	return set
}

// controller is a process that was just started: it knows nothing.
func (w *world) controller() *cluster.Controller {
	w.t.Helper()
	reg := &region.Region{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "r1"}, reg); err != nil {
		w.t.Fatal(err)
	}
	c := &cluster.Controller{Events: &w.events, Client: w.api, Live: w.api, Metadata: w.api, Region: reg, DataDir: w.dir, Compose: w.compose,
		Templates: &plan.Templates{API: w.api, Own: w.composer, Earlier: w.earlier}, Cloud: w.cloud,
		Space: func(string) (uint64, uint64, error) { return w.free, 100 << 30, nil },
		Pin: func(_ context.Context, set oci.Set) error {
			w.pinned = set.Release
			return nil
		},
		Own: func(f cluster.Folder) error { // the test need not be root
			return os.MkdirAll(f.Path, 0o755)
		},
		Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)}
	if err := c.Init(nil); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) cluster() *region.OpenStackCluster {
	w.t.Helper()
	c := &region.OpenStackCluster{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "lab"}, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) condition(kind string) metav1.Condition {
	if c := meta.FindStatusCondition(w.cluster().Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// reconcile is one reconciliation, after which the kubelet does its part and time passes.
func (w *world) reconcile(c *cluster.Controller) ctrl.Result {
	w.t.Helper()
	r, err := c.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "lab"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.kubelet()
	w.now = w.now.Add(max(r.RequeueAfter, time.Second))
	return r
}

// until reconciles until a condition holds.
func (w *world) until(next func() *cluster.Controller, what string, done func() bool) {
	w.t.Helper()
	for range 60 {
		w.reconcile(next())
		if done() {
			return
		}
	}
	var all []string
	for _, k := range w.cluster().Status.Conditions {
		all = append(all, fmt.Sprintf("%s %s %s: %s", k.Type, k.Status, k.Reason, k.Message))
	}
	w.t.Fatalf("%s: not after 60 reconciliations:\n%s", what, strings.Join(all, "\n"))
}

func (w *world) ready() bool {
	return w.condition(region.ConditionReady).Status == metav1.ConditionTrue
}

// always the same process.
func always(c *cluster.Controller) func() *cluster.Controller {
	return func() *cluster.Controller { return c }
}

func (w *world) must(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

// compose renders each input once for all processes of a test.
func (w *world) compose(c *openstack.Composer, in openstack.Input, last *openstack.State) (*openstack.State, error) {
	w.composes++
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	key := c.Digest() + string(b)
	if s := w.composed[key]; s != nil {
		return s, nil
	}
	s, err := c.Next(in, last)
	if err == nil {
		w.composed[key] = s
	}
	return s, err
}

// jobs that are there, by name.
func (w *world) jobs() []string {
	var list batchv1.JobList
	w.must(w.api.List(w.t.Context(), &list))
	var names []string
	for _, j := range list.Items {
		names = append(names, j.Name)
	}
	return names
}

// latest is a job as it is, with other finalizers.
func (w *world) latest(j *batchv1.Job) *batchv1.Job {
	w.t.Helper()
	now := &batchv1.Job{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKeyFromObject(j), now))
	now.Finalizers = j.Finalizers
	return now
}
