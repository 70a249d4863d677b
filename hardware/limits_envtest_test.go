//go:build envtest

package hardware_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/test/apiserver"
)

// bigMachine is an inventory as large as they get: a storage server with two shelves.
func bigMachine() *inventory.Inventory {
	inv := &inventory.Inventory{Firmware: inventory.FirmwareUEFI, System: inventory.SystemInfo{Manufacturer: "Test", UUID: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4"}}
	for i := range 250 {
		inv.Disks = append(inv.Disks, inventory.Disk{Name: fmt.Sprintf("sd%d", i), SerialNumber: strings.Repeat("S", 20), WWN: strings.Repeat("5", 32), Model: strings.Repeat("M", 40),
			Type: inventory.DiskHDD, Bytes: 20e12, Content: strings.Repeat("GPT, ext4; ", 10),
			Marker: &inventory.InstallMarker{RegionUID: strings.Repeat("r", 36), ServerUID: strings.Repeat("s", 36), Image: "trixie-1", Installed: "2026-03-01T12:00:00Z"}})
	}
	for i := range 64 {
		inv.NICs = append(inv.NICs, inventory.NIC{Name: fmt.Sprintf("enp%ds0f0np0", i), MACAddress: fmt.Sprintf("52:54:00:00:00:%02x", i), Driver: "mlx5_core", PCIAddress: "0000:01:00.0",
			LLDP: &inventory.LLDPNeighbour{ChassisID: "aa:bb:cc:dd:ee:ff", PortID: strings.Repeat("p", 64), SystemName: strings.Repeat("n", 64)}})
	}
	return inv
}

// What a host's agent may write is bounded by the API server itself: a compromised host can't fill etcd, nor write for others.
func TestHostsAreLimited(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := host.ApplyLimits(ctx, c.api); err != nil {
		t.Fatal(err)
	}
	h, err := host.Enroll(ctx, c.api, "h1", region.RoleCompute, "")
	if err != nil {
		t.Fatal(err)
	}
	key := enroll.KeyID([]byte("key"))
	if err := host.EnsureEnrolled(ctx, c.api, h, host.Holders{Keys: []string{key}}); err != nil {
		t.Fatal(err)
	}
	conf := rest.CopyConfig(c.rest)
	conf.QPS = -1
	conf.Impersonate = rest.ImpersonationConfig{UserName: host.User("h1"), Groups: []string{"regiond:hosts", enroll.KeyGroup(key), "system:authenticated"}}
	agent, err := client.New(conf, client.Options{Scheme: c.scheme})
	if err != nil {
		t.Fatal(err)
	}
	// write changes the status like an agent: by a merge patch.
	write := func(c client.Client, change func(*region.HostStatus)) error {
		h := &region.Host{}
		if err := c.Get(ctx, client.ObjectKey{Name: "h1"}, h); err != nil {
			return err
		}
		before := h.DeepCopy()
		change(&h.Status)
		return c.Status().Patch(ctx, h, client.MergeFrom(before))
	}
	text := func(n int) func(*region.HostStatus) {
		return func(s *region.HostStatus) { s.Kernel = strings.Repeat("x", n) }
	}
	// The policies are compiled some time after they were written.
	apiserver.Eventually(t, "a status that is too large is refused", func() (bool, string) {
		err := write(agent, text(300_000+int(time.Now().UnixNano()%1000)))
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "262144 characters"), fmt.Sprint(err)
	})
	allowed := func(what string, change func(*region.HostStatus)) {
		t.Helper()
		if err := write(agent, change); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed("a big machine", func(s *region.HostStatus) { s.Inventory, s.BootID, s.Kernel = bigMachine(), "b1", "" })
	for name, change := range map[string]func(*region.HostStatus){
		"many short texts": func(s *region.HostStatus) { s.Addresses = strings.Split(strings.Repeat("10.0.0.1 ", 5000), " ") },
		"deep in a list":   func(s *region.HostStatus) { s.Inventory.NICs[7].LLDP.SystemName = strings.Repeat("x", 250_000) },
		"message of a condition": func(s *region.HostStatus) {
			for i := range 10 {
				s.Conditions = append(s.Conditions, metav1.Condition{Type: fmt.Sprint("T", i), Status: "True", Reason: "R", LastTransitionTime: metav1.Now(), Message: strings.Repeat("x", 30_000)})
			}
		},
	} {
		if err := write(agent, change); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}

	// What regiond writes into it is not the host's.
	ready := func(s *region.HostStatus) { s.OpenStack = &region.HostOpenStack{Cluster: "main", Ready: true} }
	if err := write(agent, ready); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "status.openstack") {
		t.Errorf("status.openstack by the host: %v", err)
	}
	if err := write(c.api, ready); err != nil {
		t.Errorf("status.openstack by regiond: %v", err)
	}
	allowed("a write that leaves status.openstack alone", func(s *region.HostStatus) { s.Kernel = "6.12" })

	c.checkFieldManagers(t, agent)
	checkLease(t, agent)
	c.checkFlow(t, conf)
}

// checkFieldManagers fills the host's object with the entries of field managers.
func (c *cluster) checkFieldManagers(t *testing.T, agent client.Client) {
	t.Helper()
	apply := func(by client.Client, manager string) error {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": region.GroupVersion.String(), "kind": "Host", "metadata": map[string]any{"name": "h1"},
			"status": map[string]any{"kernel": "6.12"}}}
		return by.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership)
	}
	for i := range 16 {
		if err := apply(c.api, fmt.Sprint("manager-", i)); err != nil {
			t.Fatal(err)
		}
	}
	// All say the same: with another value one would take the field from the others, and their entries would go.
	if err := apply(agent, "one-more"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field managers") {
		t.Errorf("one more field manager: %v", err)
	}
}

// checkLease renews the heartbeat, and tries to store something in it.
func checkLease(t *testing.T, agent client.Client) {
	t.Helper()
	change := func(f func(*coordinationv1.Lease)) error {
		l := &coordinationv1.Lease{}
		if err := agent.Get(t.Context(), client.ObjectKey{Namespace: host.Namespace, Name: "h1"}, l); err != nil {
			return err
		}
		before := l.DeepCopy()
		f(l)
		return agent.Patch(t.Context(), l, client.MergeFrom(before))
	}
	for range 3 {
		if err := change(func(l *coordinationv1.Lease) { now := metav1.NowMicro(); l.Spec.RenewTime = &now }); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
	}
	long := strings.Repeat("x", 300)
	for name, f := range map[string]func(*coordinationv1.Lease){
		"annotation": func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"a": long} },
		"label":      func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} },
		"owner":      func(l *coordinationv1.Lease) { l.OwnerReferences = nil },
		"holder":     func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &long },
	} {
		if err := change(f); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s in the Lease: got %v, want a refusal", name, err)
		}
	}
}

// checkFlow sees whether the API server queues a host's requests apart.
func (c *cluster) checkFlow(t *testing.T, conf *rest.Config) {
	t.Helper()
	schema := &flowcontrolv1.FlowSchema{}
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "regiond-hosts"}, schema); err != nil {
		t.Fatal(err)
	}
	api, err := rest.HTTPClientFor(conf)
	if err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the flow schema of hosts", func() (bool, string) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, conf.Host+"/apis/"+region.GroupVersion.String()+"/hosts/h1", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := api.Do(r)
		if err != nil {
			return false, err.Error()
		}
		resp.Body.Close()
		uid := resp.Header.Get("X-Kubernetes-PF-FlowSchema-UID")
		return uid == string(schema.UID), resp.Status + " " + uid
	})
}
