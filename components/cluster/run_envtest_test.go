//go:build envtest

package cluster_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/apiserver"
)

var regiondFlag = flag.String("regiond", "../../bin/regiond", "a built regiond, for its API server and etcd")

// applied is a region with one cluster in a real API server, and the controller of its clusters, which runs until the test ends.
type applied struct {
	*apiserver.Server
	t *testing.T
}

// apply creates a region and starts the controller, whose way to the API server may be wrapped.
func apply(t *testing.T, images string, secrets region.OpenStackSecrets, wrap func(http.RoundTripper) http.RoundTripper) applied {
	t.Helper()
	a := applied{apiserver.Start(t, *regiondFlag), t}
	reg := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	reg.Spec.Networks.Provisioning = region.ProvisioningNetwork{Network: region.Network{CIDR: "10.99.0.0/24", Address: "10.99.0.1"},
		DHCP: region.DHCP{Range: "10.99.0.100-10.99.0.200"}}
	reg.Spec.ControlPlane.DataDir, reg.Spec.Images.Dir = t.TempDir(), images
	reg.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "lab", PatchesDir: t.TempDir(), Secrets: secrets}}
	region.Default(reg)
	if err := a.Client.Create(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	conf := rest.CopyConfig(a.REST)
	conf.Wrap(wrap)
	m, err := manager.New(manager.Config{REST: conf, Host: "seed", Cached: []manager.Cached{cluster.Cached()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Setup(m, cluster.Config{Region: reg, DataDir: reg.Spec.ControlPlane.DataDir, Pin: func(context.Context, oci.Set) error { return nil },
		Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a
}

// condition of the cluster in words, "" if there is none yet.
func (a applied) condition(kind string) string {
	a.t.Helper()
	c := &region.OpenStackCluster{}
	if err := client.IgnoreNotFound(a.Client.Get(a.t.Context(), client.ObjectKey{Name: "lab"}, c)); err != nil {
		a.t.Fatal(err)
	}
	if k := meta.FindStatusCondition(c.Status.Conditions, kind); k != nil {
		return string(k.Status) + " " + k.Reason + ": " + k.Message
	}
	return ""
}

// says waits until a condition says all of the parts.
func (a applied) says(what, kind string, parts ...string) {
	a.t.Helper()
	apiserver.Eventually(a.t, what, func() (bool, string) {
		seen := a.condition(kind)
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(seen, p) }), seen
	})
}

// TestRun has a region applied to a real API server, as far as that goes without a kubelet: what needs pods is played.
func TestRun(t *testing.T) {
	images := &world{t: t, dir: t.TempDir()}
	// At the start the API server refuses what the controller needs first: that must not end the manager, which has other services.
	refused := make(chan struct{}, 1)
	a := apply(t, images.dir, region.OpenStackSecrets{}, func(next http.RoundTripper) http.RoundTripper {
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
	api := a.Client
	a.says("the missing images are told of", region.ConditionConfigured, "regiond image build")
	images.images(true) // no event tells of that
	sets := &appsv1.StatefulSetList{}
	apiserver.Eventually(t, "MariaDB and RabbitMQ are applied, and Keystone is not", func() (bool, string) {
		if err := api.List(t.Context(), sets, client.InNamespace("openstack-lab")); err != nil {
			t.Fatal(err)
		}
		return len(sets.Items) == 2, a.condition(region.ConditionReady)
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
	apiserver.Eventually(t, "the broker is served at the cluster's address", func() (bool, string) {
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "rabbitmq"}, svc); err != nil {
			t.Fatal(err)
		}
		i := svc.Status.LoadBalancer.Ingress
		return len(i) == 1 && i[0].IP == "10.99.0.1", a.condition(region.ConditionReady)
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
	a.says("the proof of MariaDB fails", region.ConditionMariaDB, "ProbeFailed", ":3306")
	if len(refused) == 0 {
		t.Error("no call was refused at the start")
	}
	// Drift is repaired.
	if err := api.Delete(t.Context(), &sets.Items[0]); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "a StatefulSet that was deleted is recreated", func() (bool, string) {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(&sets.Items[0]), &appsv1.StatefulSet{})
		return err == nil, "not there"
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
