//go:build envtest

package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

func testDeclare(t *testing.T, c client.Client) {
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	r.Spec.Networks.Provisioning.CIDR, r.Spec.Networks.Provisioning.Address, r.Spec.Networks.Provisioning.DHCP.Range = "10.99.0.0/24", "10.99.0.1", "10.99.0.100-10.99.0.199"
	region.Default(r)
	old := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: region.OpenStackClusterSpec{OpenStackDeclaration: region.OpenStackDeclaration{Name: "old"}}}
	if err := c.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	p, err := plan.OfRegion(t.Context(), c, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.WriteText(&b); err != nil || !strings.Contains(b.String(), "+ Region r1\n") ||
		!strings.Contains(b.String(), "- OpenStackCluster old\n      → its control plane is removed and its hosts are no longer configured: guests keep running but can't be managed. "+
			"Its data in /var/lib/regiond/openstack/old and its passwords and keys, Secret openstack-old/openstack-secrets, are kept; a cluster declared by this name later gets both back\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if err := p.Allowed(false); err == nil || !strings.Contains(err.Error(), "OpenStack cluster old is no longer declared") || !strings.Contains(err.Error(), "--allow-delete") {
		t.Errorf("got %v", err)
	}
	if err := p.Allowed(true); err != nil {
		t.Error(err)
	}
	written, err := p.Declare(t.Context(), c)
	if err != nil || fmt.Sprint(written) != "[Region r1]" {
		t.Errorf("%v %v", written, err)
	}
	if p, err = plan.OfRegion(t.Context(), c, r, nil); err != nil || !p.Empty() || p.Summary() != "No changes: the region is as declared." {
		t.Errorf("%v, %+v", err, p)
	}
	// A struct that had fields and is now empty is removed.
	r.Spec.Hardware.Discovery = []region.DiscoveryRange{{Range: "10.98.0.11-10.98.0.11", Credentials: "x"}}
	for _, want := range []int{1, 0} {
		if p, err = plan.OfRegion(t.Context(), c, r, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Declare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		stored := &region.Region{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "r1"}, stored); err != nil || len(stored.Spec.Hardware.Discovery) != want {
			t.Errorf("%v, %+v", err, stored.Spec.Hardware)
		}
		r.Spec.Hardware = region.Hardware{}
	}
	r.Spec.Networks.Provisioning.DHCP.Range = "10.99.0.100-10.99.0.150"
	if p, err = plan.OfRegion(t.Context(), c, r, nil); err != nil || len(p.Declarations) != 1 {
		t.Fatalf("%v, %+v", err, p)
	}
	want := []rollout.Field{{Path: "spec.networks.provisioning.dhcp.range", Old: "10.99.0.100-10.99.0.199", New: "10.99.0.100-10.99.0.150", Effects: []region.Effect{region.AtStart}}}
	if got := p.Declarations[0].Fields; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// testProgram runs plan, apply and plan on a region with a cluster of this program's own templates
// and manifests.
func testProgram(t *testing.T, c client.Client) {
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	r.Spec.Networks.Provisioning.CIDR, r.Spec.Networks.Provisioning.Address, r.Spec.Networks.Provisioning.DHCP.Range = "10.99.0.0/24", "10.99.0.1", "10.99.0.100-10.99.0.199"
	r.Spec.Images.Dir = t.TempDir()
	r.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "program", Profiles: []string{"program"}, Values: &runtime.RawExtension{Raw: []byte(`{"nova": {"conf": {"DEFAULT": {"debug": true}}}}`)}}}
	region.Default(r)
	writeImages(t, r.Spec.Images.Dir, "mariadb", "rabbitmq", "memcached", "keystone", "placement", "glance", "nova", "neutron", "client")
	clusters, err := openstack.Clusters(r, func(string) ([]region.Patch, error) {
		return []region.Patch{{File: "/etc/regiond/openstack/program/10.yaml", Content: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystone}\nspec: {replicas: 2}\n"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	planned := func() (*plan.Plan, string) {
		t.Helper()
		p, err := plan.OfRegion(t.Context(), c, r, clusters)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := p.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return p, b.String()
	}
	p, text := planned()
	for _, want := range []string{"+ OpenStackCluster program\n", "+ Namespace openstack-program\n", "+ Deployment openstack-program/nova-api\n", "! the cluster's secrets will be generated"} {
		if !strings.Contains(text, want) {
			t.Errorf("the first plan lacks %q:\n%s", want, text)
		}
	}
	if _, err := p.Declare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f, err := plan.Gather(t.Context(), c, r, clusters[0])
	if err != nil {
		t.Fatal(err)
	}
	s, err := openstack.Desired(f.Input)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, f, s)
	before := versions(t, c, s, f)
	if got := apply(t, c, f, s); len(got) != 0 || !reflect.DeepEqual(before, versions(t, c, s, f)) {
		t.Errorf("an unchanged apply: got %v written, want nothing", got)
	}
	if p, text := planned(); !p.Empty() {
		t.Errorf("a plan without changes: got\n%s", text)
	}
	r.Spec.OpenStack.Clusters[0].Values.Raw = []byte(`{"nova": {"conf": {"DEFAULT": {"debug": false}}}}`)
	if clusters, err = openstack.Clusters(r, func(string) ([]region.Patch, error) { return nil, fs.ErrNotExist }); err != nil {
		t.Fatal(err)
	}
	_, text = planned()
	for _, want := range []string{"~ OpenStackCluster program\n", "spec.values.nova.conf.DEFAULT.debug: true → false", "spec.replicas: 2 → 1", "    ~ /etc/nova/nova.conf\n", "-debug = true\n", "+debug = false\n",
		"pods of nova-api restart", "pods of nova-scheduler restart"} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan of a changed option lacks %q", want)
		}
	}
	for _, other := range []string{"pods of keystone restart", "pods of glance restart", "pods of mariadb restart", "+ Job", "- Job"} {
		if strings.Contains(text, other) {
			t.Errorf("a changed option of Nova: the plan has %q", other)
		}
	}
	if t.Failed() {
		t.Logf("the plan:\n%s", text)
	}
}

// writeImages writes a set of images as if they had been built.
func writeImages(t *testing.T, dir string, names ...string) {
	t.Helper()
	set := oci.Set{Release: "epoxy", Images: map[string]oci.Image{}}
	for _, n := range names {
		set.Images[n] = oci.Image{Repository: "openstack/epoxy/" + n, Digest: "sha256:" + strings.Repeat("a", 64), Version: "1"}
	}
	b, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(oci.LayoutDir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(oci.LayoutDir(dir), "epoxy.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func testGather(t *testing.T, c client.Client) {
	cluster := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "gather"}, Spec: region.OpenStackClusterSpec{
		OpenStackDeclaration: region.OpenStackDeclaration{Name: "gather", Release: region.ReleaseEpoxy, Profiles: []string{"big"}}}}
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	r.Spec.Networks.Provisioning.CIDR = "10.99.0.0/24"
	r.Spec.Images.Dir = t.TempDir()
	if _, err := plan.Gather(t.Context(), c, r, cluster); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "OpenStack cluster gather: ") || !strings.Contains(err.Error(), "regiond image build") {
		t.Errorf("got %v", err)
	}
	writeImages(t, r.Spec.Images.Dir, "nova")
	for _, h := range []*region.Host{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: region.HostSpec{Role: region.RoleCompute, Profile: "big"}, Status: region.HostStatus{Addresses: []string{"192.0.2.1", "10.99.0.7"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: region.HostSpec{Role: region.RoleCompute, Profile: "big"}, Status: region.HostStatus{Addresses: []string{"192.0.2.1"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: region.HostSpec{Role: region.RoleCompute, Profile: "small"}, Status: region.HostStatus{Addresses: []string{"10.99.0.8"}}},
	} {
		status := h.Status
		if err := c.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		h.Status = status
		if err := c.Status().Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	f, err := plan.Gather(t.Context(), c, r, cluster)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Hosts) != 2 || f.Hosts[0].Name != "a" || f.Hosts[0].Address != "10.99.0.7" || f.Hosts[0].UID == "" || f.Hosts[1].Address != "" || f.Secrets != nil || f.Images.Images["nova"].Version != "1" {
		t.Errorf("got %+v", f)
	}
	if len(f.Waiting) != 1 || f.Waiting[0] != "host b: waiting for its agent to report an address in 10.99.0.0/24; the host is configured then" {
		t.Errorf("waiting %q", f.Waiting)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openstack-gather"}}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-gather", Name: openstack.SecretName}, StringData: map[string]string{openstack.SecretKey: `{"keystone": {"password": "hush"`}}
	if err := c.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Gather(t.Context(), c, r, cluster); err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "openstack-gather/openstack-secrets: secrets.json is not a JSON object") {
		t.Errorf("got %v", err)
	}
	secret.StringData = map[string]string{openstack.SecretKey: `{"keystone": {"password": "hush"}}`}
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if f, err = plan.Gather(t.Context(), c, r, cluster); err != nil || fmt.Sprint(f.Secrets) != "map[keystone:map[password:hush]]" {
		t.Errorf("%v %v", f.Secrets, err)
	}
}

func testAwait(t *testing.T, c client.Client) {
	o := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "await"}, Spec: region.OpenStackClusterSpec{OpenStackDeclaration: region.OpenStackDeclaration{Name: "await"}}}
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var said []string
	await := func() error {
		said = nil
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return plan.WaitReady(ctx, c, []string{"await"}, nil, func(line string) { said = append(said, line) })
	}
	if err := await(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "await: regiond's controller has not observed the change; check that it runs: regiond status") {
		t.Errorf("got %v", err)
	}
	o.Status.ObservedGeneration = o.Generation
	now := metav1.Now()
	cond := func(name string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "R", Message: message, LastTransitionTime: now, ObservedGeneration: o.Generation}
	}
	o.Status.Conditions = []metav1.Condition{cond(region.ConditionMariaDB, metav1.ConditionTrue, "a row was written and read"), cond(region.ConditionRabbitMQ, metav1.ConditionFalse, "waiting for rabbitmq"),
		cond(region.ConditionReady, metav1.ConditionFalse, "waiting for RabbitMQ")}
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := await(); err == nil || !strings.HasSuffix(err.Error(), "still missing:\n  await: RabbitMQ: waiting for rabbitmq") {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(said, "\n"); got != "await: MariaDB: passed\nawait: RabbitMQ: waiting for rabbitmq" {
		t.Errorf("said\n%s", got)
	}
	o.Status.Conditions = []metav1.Condition{cond(region.ConditionReady, metav1.ConditionTrue, "ready")}
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := await(); err != nil || said[0] != "await: Ready" {
		t.Errorf("%v, said %v", err, said)
	}
	if err := c.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := await(); err == nil || !strings.Contains(err.Error(), "the OpenStack cluster no longer exists") {
		t.Errorf("got %v", err)
	}
}
