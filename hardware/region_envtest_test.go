//go:build envtest

package hardware_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/discovery"
	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/test/apiserver"
)

func fakeRoot(t *testing.T, uuid string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"proc/sys/kernel/random/boot_id": "boot-1", "proc/sys/kernel/osrelease": "6.12", "proc/cmdline": "root=PARTLABEL=root-a", "proc/stat": "btime 1767225600\n",
		"etc/os-release": "IMAGE_VERSION=trixie-1\n", "sys/class/dmi/id/product_uuid": uuid, identity.MountPoint + "/x": "",
	} {
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRegionOnRealAPIServer(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	m := &machine{t: t, uuid: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4", mac: "52:54:00:00:00:01", dir: t.TempDir(), power: region.PowerOff, booted: make(chan bool, 10)}
	reg := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: region.RegionSpec{
		Networks: region.Networks{Provisioning: region.ProvisioningNetwork{Network: region.Network{CIDR: "10.99.0.0/24", Address: "10.99.0.1"}, DHCP: region.DHCP{Range: "10.99.0.100-10.99.0.199"}}},
		Hardware: region.Hardware{
			Credentials: []region.Credential{{Name: "lab", File: "/x"}},
			Discovery:   []region.DiscoveryRange{{Range: "10.98.0.11-10.98.0.11", Credentials: "lab"}},
			Profiles:    []region.Profile{{Name: "all"}},
		}}}
	for _, o := range []client.Object{reg, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "bmc-lab"}, StringData: map[string]string{"username": "admin", "password": "x"}}} {
		if err := c.api.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := enrollment.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	enrolling, stop := c.regiond(t, m, listener)

	// Discovery makes exactly one Server, and its name is from the machine's identity.
	name := discovery.Name(region.BMCStatus{SystemUUID: m.uuid}, netip.AddrPort{})
	m.install(ctx, enrolling)
	s := &region.Server{}
	get := func() *region.Server {
		t.Helper()
		if err := c.api.Get(ctx, client.ObjectKey{Name: name}, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	apiserver.Eventually(t, "server installed", func() (bool, string) {
		return meta.IsStatusConditionTrue(get().Status.Conditions, region.ConditionInstalled), fmt.Sprintf("%+v", s.Status)
	})

	// The real agent joins and reports.
	agentCtx, stopAgent := context.WithCancel(context.Background())
	agent, err := node.New(node.Config{DataDir: m.dir, StateFile: filepath.Join(m.dir, "run", "agent.json"), Version: "v1",
		Observer: node.Observer{Root: fakeRoot(t, m.uuid), Units: func(context.Context) ([]string, error) { return nil, nil },
			Inventory: func() (inventory.Inventory, error) {
				return inventory.Inventory{System: inventory.SystemInfo{UUID: m.uuid}, Firmware: inventory.FirmwareUEFI}, nil
			}},
		HeartbeatEvery: 200 * time.Millisecond, ObserveEvery: 300 * time.Millisecond, CompareEvery: time.Second, Log: slog.New(slog.NewTextHandler(testWriter{t}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	agentDone := make(chan error, 1)
	go func() { agentDone <- agent.Run(agentCtx) }()
	t.Cleanup(func() {
		stopAgent()
		if err := <-agentDone; err != nil {
			t.Error(err)
		}
	})
	ready := func() (bool, string) {
		return meta.IsStatusConditionTrue(get().Status.Conditions, region.ConditionReady), fmt.Sprintf("%+v", s.Status.Conditions)
	}
	apiserver.Eventually(t, "server ready", ready)
	h := &region.Host{}
	if err := c.api.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
		t.Fatal(err)
	}
	if st := h.Status; st.BootID != "boot-1" || st.Image != "trixie-1" || st.Slot != "A" || st.Kernel != "6.12" || st.AgentVersion != "v1" || !metav1.IsControlledBy(h, s) {
		t.Errorf("host %+v", h)
	}
	left, err := node.ReadIdentity(filepath.Join(m.dir, identity.File))
	if err != nil || left.JoinToken != "" {
		t.Errorf("the join token is still on disk (%v)", err)
	}

	t.Run("the agent reaches its own objects only", func(t *testing.T) { c.checkRights(t, m, name) })

	t.Run("a machine that regiond did not install joins", func(t *testing.T) { c.checkEnrolled(t, address) })

	t.Run("wiped statuses are filled again", func(t *testing.T) {
		get().Status = region.ServerStatus{}
		if err := c.api.Status().Update(ctx, s); err != nil {
			t.Fatal(err)
		}
		apiserver.Eventually(t, "server ready again", func() (bool, string) {
			ok, seen := ready()
			return ok && s.Status.BMC != nil && s.Status.BMC.SystemUUID == m.uuid && s.Status.Power == region.PowerOn && s.Status.Phase == region.PhaseReady && meta.IsStatusConditionTrue(s.Status.Conditions, region.ConditionInspected), fmt.Sprintf("%+v %s %s %s", s.Status.BMC, s.Status.Power, s.Status.Phase, seen)
		})
		if err := c.api.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
			t.Fatal(err)
		}
		before := h.Status.DeepCopy()
		h.Status = region.HostStatus{}
		if err := c.api.Status().Update(ctx, h); err != nil {
			t.Fatal(err)
		}
		apiserver.Eventually(t, "host reported again", func() (bool, string) {
			err := c.api.Get(ctx, client.ObjectKey{Name: name}, h)
			return err == nil && h.Status.BootID == before.BootID && len(h.Status.Conditions) == 1, fmt.Sprintf("%v %+v", err, h.Status)
		})
		if len(m.booted) > 0 {
			t.Error("the machine was restarted")
		}
	})

	t.Run("regiond started anew changes nothing", func(t *testing.T) {
		stop()
		if listener, err = enrollment.Listen(ctx, address); err != nil {
			t.Fatal(err)
		}
		enrolling, stop = c.regiond(t, m, listener)
		apiserver.Eventually(t, "server ready", ready)
		var all region.ServerList
		if err := c.api.List(ctx, &all); err != nil || len(all.Items) != 1 {
			t.Errorf("%v, %d servers: a known BMC was taken for new", err, len(all.Items))
		}
		if len(m.booted) > 0 {
			t.Error("the machine was restarted")
		}
	})

	t.Run("a server of region.yaml is declared, and kept when it is gone from there", func(t *testing.T) {
		before := reg.DeepCopy()
		reg.Spec.Hardware.Servers = []region.StaticServer{{Name: "static1", BMC: region.BMCEndpoint{Address: "10.98.0.50", Credentials: "none"}, Profile: "all"}}
		if err := c.api.Patch(ctx, reg, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		st := &region.Server{}
		apiserver.Eventually(t, "static server", func() (bool, string) {
			err := c.api.Get(ctx, client.ObjectKey{Name: "static1"}, st)
			ready := meta.FindStatusCondition(st.Status.Conditions, region.ConditionReady)
			return err == nil && st.Spec.BMC.Port == 623 && st.Spec.Profile == "all" && ready != nil && ready.Reason == "CredentialsMissing", fmt.Sprintf("%v %+v", err, st)
		})
		before = reg.DeepCopy()
		reg.Spec.Hardware.Servers = nil
		if err := c.api.Patch(ctx, reg, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		apiserver.Eventually(t, "condition Declared", func() (bool, string) {
			err := c.api.Get(ctx, client.ObjectKey{Name: "static1"}, st)
			return err == nil && meta.IsStatusConditionFalse(st.Status.Conditions, server.ConditionDeclared), fmt.Sprintf("%v %+v", err, st.Status)
		})
	})

	t.Run("a removed server leaves nothing", func(t *testing.T) {
		// The BMC still answers: without its range the server would be found again.
		before := reg.DeepCopy()
		reg.Spec.Hardware.Discovery = nil
		if err := c.api.Patch(ctx, reg, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if err := c.api.Delete(ctx, get()); err != nil {
			t.Fatal(err)
		}
		user := host.User(name)
		for _, o := range []client.Object{
			&region.Server{ObjectMeta: metav1.ObjectMeta{Name: name}}, &region.Host{ObjectMeta: metav1.ObjectMeta{Name: name}},
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: host.Namespace}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}}, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}},
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: host.Namespace}}, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: host.Namespace}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "join-" + name, Namespace: server.Namespace}},
		} {
			apiserver.Eventually(t, fmt.Sprintf("%T gone", o), func() (bool, string) {
				err := c.api.Get(ctx, client.ObjectKeyFromObject(o), o)
				return apierrors.IsNotFound(err), fmt.Sprint(err)
			})
		}
	})
	stop()
}

// checkRights tries with the agent's certificate what it may and may not.
func (c *cluster) checkRights(t *testing.T, m *machine, name string) {
	file := filepath.Join(m.dir, "agent", "client.pem")
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", st, err)
	}
	cert, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	other := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: region.HostSpec{ServerUID: "x", Role: region.RoleCompute}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: host.Namespace}}
	for _, o := range []client.Object{other, lease} {
		if err := c.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.rest.CAData)
	agent := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}}}
	defer agent.CloseIdleConnections()
	configurations := "/api/v1/namespaces/regiond-hosts/secrets"
	hosts, leases, secrets := "/apis/regiond.dev/v1alpha1/hosts/", "/apis/coordination.k8s.io/v1/namespaces/regiond-hosts/leases/", "/api/v1/namespaces/regiond-system/secrets/"
	for _, tt := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", hosts + name, "", 200},
		{"GET", leases + name, "", 200},
		{"PATCH", leases + name, `{"spec":{"holderIdentity":"me"}}`, 200},
		{"PATCH", hosts + name + "/status", `{"status":{"slot":"A"}}`, 200},
		{"GET", configurations + "/" + name, "", 404}, // allowed, but there is none yet
		{"GET", configurations + "?fieldSelector=metadata.name=" + name, "", 200},
		{"GET", configurations + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=" + name, "", 200},
		{"GET", configurations, "", 403},
		{"GET", configurations + "/other", "", 403},
		{"GET", configurations + "?fieldSelector=metadata.name=other", "", 403},
		{"PATCH", configurations + "/" + name, `{"data":{}}`, 403},
		{"DELETE", configurations + "/" + name, "", 403},
		{"GET", hosts + "other", "", 403},
		{"PATCH", hosts + "other/status", `{"status":{"slot":"A"}}`, 403},
		{"PATCH", hosts + name, `{"spec":{"role":"compute"}}`, 403},
		{"DELETE", hosts + name, "", 403},
		{"GET", strings.TrimSuffix(hosts, "/"), "", 403},
		{"GET", leases + "other", "", 403},
		{"PATCH", leases + "other", `{"spec":{"holderIdentity":"me"}}`, 403},
		{"GET", strings.TrimSuffix(leases, "/"), "", 403},
		{"GET", secrets + "join-" + name, "", 403},
		{"GET", secrets + "bmc-lab", "", 403},
		{"GET", strings.TrimSuffix(secrets, "/"), "", 403},
		{"GET", "/apis/regiond.dev/v1alpha1/servers/" + name, "", 403},
		{"GET", "/apis/regiond.dev/v1alpha1/regions", "", 403},
		{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "", 403},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/" + host.User(name), "", 403},
		{"GET", "/api/v1/nodes", "", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, strings.TrimSuffix(c.rest.Host, "/")+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/merge-patch+json")
		resp, err := agent.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.code {
			t.Errorf("%s %s: %d, want %d: %v %s", tt.method, tt.path, resp.StatusCode, tt.code, err, answer)
		}
	}
}
