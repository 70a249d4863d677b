package computehost_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cloud/cloudtest"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/region"
)

// world is a region with one server and a cloud in which it is a compute host.
type world struct {
	t     *testing.T
	api   client.Client
	cloud *cloudtest.Cloud
	said  []string
	// off: the machine's BMC powers it off when told to.
	off bool
}

const providerUUID = "11111111-0000-4000-8000-000000000001"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cloud: cloudtest.New(t), off: true}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, region.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	server := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "u1"}}
	cluster := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", UID: "c1"}}
	secrets := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "openstack-secrets"},
		Data: map[string][]byte{"secrets.json": []byte(`{"keystone": {"admin_password": "admin-password"}}`)}}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&region.Server{}).WithObjects(server, cluster, secrets).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			s, ok := o.(*region.Server)
			if !ok || !s.Spec.Retired || !w.off {
				return nil
			}
			now := &region.Server{} // acts as the hardware controller
			if err := c.Get(ctx, client.ObjectKeyFromObject(s), now); err != nil {
				return err
			}
			now.Status.Phase = region.PhaseRetired
			return c.Status().Update(ctx, now)
		}}).Build()
	w.cloud.Add("/compute/v2.1/os-services", cloudtest.Item{"binary": "nova-compute", "host": "node1", "state": "up", "status": "enabled"})
	w.cloud.Add("/compute/v2.1/os-services", cloudtest.Item{"binary": "nova-compute", "host": "node2", "state": "up", "status": "enabled"})
	w.cloud.Add("/network/v2.0/agents", cloudtest.Item{"host": "node1", "binary": "neutron-openvswitch-agent", "alive": true})
	w.cloud.Add("/network/v2.0/agents", cloudtest.Item{"host": "node2", "binary": "neutron-openvswitch-agent", "alive": true})
	w.cloud.Add("/placement/resource_providers", cloudtest.Item{"uuid": providerUUID, "name": "node1"})
	w.cloud.Add("/placement/resource_providers", cloudtest.Item{"uuid": "other", "name": "node2"})
	return w
}

// target points at the test's server instead of the cluster's address.
func (w *world) target(*region.OpenStackCluster, map[string]any) gate.Target {
	return gate.Target{Admin: cloud.Credentials{URL: w.cloud.URL + "/identity", User: "admin", Password: "admin-password", Project: "admin"},
		Placement: w.cloud.URL + "/placement/", Nova: w.cloud.URL + "/compute/v2.1/", Neutron: w.cloud.URL + "/network/"}
}

func (w *world) inspect() *computehost.Survey {
	w.t.Helper()
	s, err := computehost.Inspect(w.t.Context(), w.api, "node1", w.target)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) retire(force bool) error {
	w.t.Helper()
	s, err := computehost.Inspect(w.t.Context(), w.api, "node1", w.target)
	if err != nil {
		return err
	}
	return s.Retire(w.t.Context(), computehost.Options{Force: force, OffTimeout: 50 * time.Millisecond,
		Progress: func(s string) { w.said = append(w.said, s) }})
}

// left counts the records of node1, and checks that all records of node2 exist.
func (w *world) left() (n int) {
	w.t.Helper()
	for path, key := range map[string]string{"/compute/v2.1/os-services": "host", "/network/v2.0/agents": "host",
		"/placement/resource_providers": "name"} {
		others := 0
		for _, i := range w.cloud.Items(path) {
			switch i[key] {
			case "node1":
				n++
			case "node2":
				others++
			}
		}
		if others != 1 {
			w.t.Errorf("%s: got %d records of the other host, want them unchanged", path, others)
		}
	}
	return n
}

func TestRetire(t *testing.T) {
	w := newWorld(t)
	steps := strings.Join(w.inspect().Steps(), "\n")
	for _, part := range []string{"disable nova-compute", "power the server off", "neutron-openvswitch-agent", "mapping to the cell",
		"resource provider node1"} {
		if !strings.Contains(steps, part) {
			t.Errorf("the plan lacks %q:\n%s", part, steps)
		}
	}
	if len(w.cloud.Writes()) > 0 {
		t.Error("inspecting the host changed something")
	}
	if err := w.retire(false); err != nil {
		t.Fatal(err)
	}
	if n := w.left(); n > 0 {
		t.Errorf("%d records are left, want none", n)
	}
	s := &region.Server{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, s); err != nil || !s.Spec.Retired {
		t.Errorf("got the server %+v, %v; want it retired", s.Spec, err)
	}
	writes := w.cloud.Writes()
	disabled := slices.IndexFunc(writes, func(s string) bool { return strings.HasPrefix(s, "PUT /compute/v2.1/os-services") })
	deleted := slices.IndexFunc(writes, func(s string) bool { return strings.HasPrefix(s, "DELETE ") })
	if disabled < 0 || deleted < disabled {
		t.Errorf("got the requests %q, want the service disabled first and deleted last", writes)
	}
	// The second time there is nothing to do.
	if err := w.retire(false); err != nil || len(w.cloud.Writes()) > 0 {
		t.Errorf("the second time: %v", err)
	}
}

func TestRetireResumes(t *testing.T) {
	for _, cut := range []string{"PUT /compute/v2.1/os-services", "DELETE /network/v2.0/agents", "DELETE /compute/v2.1/os-services",
		"GET /placement/resource_providers/", "DELETE /placement/resource_providers"} {
		w := newWorld(t)
		w.cloud.Refuse(cut, http.StatusServiceUnavailable)
		if err := w.retire(false); err == nil {
			t.Errorf("%s: got no error from the refused request", cut)
		}
		w.cloud.Refuse(cut, 0)
		if err := w.retire(false); err != nil {
			t.Errorf("%s: %v", cut, err)
		}
		if n := w.left(); n > 0 {
			t.Errorf("%s: %d records are left, want none", cut, n)
		}
	}
}

func TestGuestsAreNotLost(t *testing.T) {
	w := newWorld(t)
	w.cloud.Add("/compute/v2.1/servers/detail", cloudtest.Item{"id": "vm1", "name": "shop", "host": "node1", "status": "ACTIVE", "tenant_id": "p1"})
	for _, force := range []bool{false, true} {
		err := w.retire(force)
		if err == nil || !strings.Contains(err.Error(), "shop (vm1") {
			t.Errorf("force %t: got %v, want a refusal", force, err)
		}
	}
	if writes := w.cloud.Writes(); len(writes) > 0 || w.left() != 3 {
		t.Errorf("a host with guests was changed: %q", writes)
	}
}

func TestOrphanedAllocationsGo(t *testing.T) {
	w := newWorld(t)
	w.cloud.Allocate(providerUUID, "gone-instance")
	if err := w.retire(false); err != nil || w.left() > 0 {
		t.Errorf("got %d records left, error %v; want none", w.left(), err)
	}
	// The instance exists although Nova does not list it on the host: it was evacuated and its
	// allocation was left behind.
	w = newWorld(t)
	w.cloud.Allocate(providerUUID, "vm2")
	w.cloud.Add("/compute/v2.1/servers/detail", cloudtest.Item{"id": "vm2", "name": "db", "host": "node2", "status": "ACTIVE"})
	if err := w.retire(false); err == nil || !strings.Contains(err.Error(), "vm2") {
		t.Errorf("an allocation of an existing instance: got %v, want a refusal", err)
	}
}

func TestServerThatIsNotOff(t *testing.T) {
	w := newWorld(t)
	w.off = false
	err := w.retire(false)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("error %v", err)
	}
	if w.left() != 3 {
		t.Error("services of a machine that may be running were deleted")
	}
	if err := w.retire(true); err != nil || w.left() > 0 {
		t.Errorf("forced: %d left, %v", w.left(), err)
	}
}

func TestEnrolledHost(t *testing.T) {
	w := newWorld(t)
	if err := w.api.Delete(t.Context(), w.inspect().Server); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Create(t.Context(), &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.retire(false); err == nil || !strings.Contains(err.Error(), "still reports") {
		t.Errorf("a running host that can't be powered off: got %v, want a refusal", err)
	}
	if writes := w.cloud.Writes(); w.left() != 3 || len(writes) > 0 {
		t.Errorf("its services were changed: %q", writes)
	}
	if err := w.retire(true); err != nil || w.left() > 0 {
		t.Errorf("forced: %d left, %v", w.left(), err)
	}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, &region.Host{}); err == nil {
		t.Error("the host still exists")
	}
}

func TestUnknownHost(t *testing.T) {
	w := newWorld(t)
	if _, err := computehost.Inspect(t.Context(), w.api, "node9", w.target); err == nil || !strings.Contains(err.Error(), "node9") {
		t.Errorf("error %v", err)
	}
}

// A cloud that does not respond may have guests on the host.
func TestSilentCloud(t *testing.T) {
	w := newWorld(t)
	target := func(_ *region.OpenStackCluster, _ map[string]any) gate.Target {
		to := w.target(nil, nil)
		to.Admin.URL = "http://127.0.0.1:1"
		return to
	}
	if _, err := computehost.Inspect(t.Context(), w.api, "node1", target); err == nil || !strings.Contains(err.Error(), "may have guests") {
		t.Errorf("error %v", err)
	}
}
