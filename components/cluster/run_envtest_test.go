//go:build envtest

package cluster_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"regiond.dev/regiond/bootstrap/kube/testassets"
	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

var regiondFlag = flag.String("regiond", "../../bin/regiond", "a built regiond, for its API server and etcd")

// TestRun has a region applied to a real API server, as far as that goes without a kubelet: what needs pods is played.
func TestRun(t *testing.T) {
	env := &envtest.Environment{BinaryAssetsDirectory: testassets.Dir(t, *regiondFlag), CRDDirectoryPaths: []string{"../../region/crd"},
		ErrorIfCRDPathMissing: true}
	conf, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(conf, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	images := &world{t: t, dir: t.TempDir()}
	reg := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	reg.Spec.Networks.Provisioning = region.ProvisioningNetwork{Network: region.Network{CIDR: "10.99.0.0/24", Address: "10.99.0.1"},
		DHCP: region.DHCP{Range: "10.99.0.100-10.99.0.200"}}
	reg.Spec.ControlPlane.DataDir, reg.Spec.Images.Dir = t.TempDir(), images.dir
	reg.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "lab", PatchesDir: t.TempDir()}}
	region.Default(reg)
	for _, o := range []client.Object{reg, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "regiond-hosts"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "regiond-system"}}} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	// At the start the API server refuses what the controller needs first: that must not end the manager, which has other services.
	refused := make(chan struct{}, 1)
	refusing := rest.CopyConfig(conf)
	refusing.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/openstackclusters") {
				select {
				case refused <- struct{}{}:
					return nil, errors.New("the API server is away")
				default:
				}
			}
			return next.RoundTrip(r)
		})
	})
	m, err := manager.New(manager.Config{REST: refusing, Host: "seed", Cached: []manager.Cached{cluster.Cached()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Setup(m, cluster.Config{Region: reg, DataDir: reg.Spec.ControlPlane.DataDir,
		Pin:      func(context.Context, oci.Set) error { return nil },
		Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	cluster := func() *region.OpenStackCluster {
		c := &region.OpenStackCluster{}
		if err := client.IgnoreNotFound(api.Get(t.Context(), client.ObjectKey{Name: "lab"}, c)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	message := func(kind string) string {
		if c := meta.FindStatusCondition(cluster().Status.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		return ""
	}
	eventually(t, "the missing images are told of", func() (bool, string) {
		m := message(region.ConditionConfigured)
		return strings.Contains(m, "regiond image build"), m
	})
	images.images(true) // no event tells of that
	sets := &appsv1.StatefulSetList{}
	eventually(t, "MariaDB and RabbitMQ are applied, and Keystone is not", func() (bool, string) {
		if err := api.List(t.Context(), sets, client.InNamespace("openstack-lab")); err != nil {
			t.Fatal(err)
		}
		return len(sets.Items) == 2, message(region.ConditionReady)
	})
	deployments := &appsv1.DeploymentList{}
	if err := api.List(t.Context(), deployments, client.InNamespace("openstack-lab")); err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		if d.Name == "keystone" || d.Name == "nova-api" {
			t.Errorf("deployment %s is there before its gate", d.Name)
		}
	}
	svc := &corev1.Service{}
	eventually(t, "the broker is served at the cluster's address", func() (bool, string) {
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "rabbitmq"}, svc); err != nil {
			t.Fatal(err)
		}
		i := svc.Status.LoadBalancer.Ingress
		return len(i) == 1 && i[0].IP == "10.99.0.1", message(region.ConditionReady)
	})
	// The pods' readiness is an event; the proof fails, for there is no database.
	for i := range sets.Items {
		s := &sets.Items[i]
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1,
			CurrentReplicas: 1}
		if err := api.Status().Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the proof of MariaDB fails", func() (bool, string) {
		m := message(region.ConditionMariaDB)
		return strings.Contains(m, "ProbeFailed") && strings.Contains(m, ":3306"), m
	})
	if len(refused) == 0 {
		t.Error("no call was refused at the start")
	}
	// Drift is repaired.
	if err := api.Delete(t.Context(), &sets.Items[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a StatefulSet that was deleted is recreated", func() (bool, string) {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(&sets.Items[0]), &appsv1.StatefulSet{})
		return err == nil, "not there"
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func eventually(t *testing.T, what string, f func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for tick := time.NewTicker(200 * time.Millisecond); ; <-tick.C {
		ok, seen := f()
		if ok {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 90 s; last seen: %s", what, seen)
		}
	}
}
