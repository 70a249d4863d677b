//go:build envtest

package plan_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"regiond.dev/regiond/bootstrap/kube/testassets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

var regiondFlag = flag.String("regiond", "../../bin/regiond", "a built regiond, for its API server, etcd and controller manager")

// newAPI starts the real API server, and the controller that orphans a StatefulSet's pods.
func newAPI(t *testing.T) client.Client {
	t.Helper()
	env := &envtest.Environment{BinaryAssetsDirectory: testassets.Dir(t, *regiondFlag), CRDDirectoryPaths: []string{"../../region/crd"}, ErrorIfCRDPathMissing: true}
	conf, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := env.AddUser(envtest.User{Name: "kcm", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kcm.kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(*regiondFlag, "kube-controller-manager", "--kubeconfig="+path, "--controllers=garbage-collector-controller", "--leader-elect=false", "--secure-port=0")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil && t.Failed() {
			t.Logf("controller manager: %v, the end of its log:\n%s", err, log.String()[max(0, log.Len()-2000):])
		}
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	conf.QPS = -1
	c, err := client.New(conf, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{host.Namespace, region.NamespaceSystem} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// composer returns a composer of small templates and the base of package kustomize's tests.
func composer(t *testing.T) *openstack.Composer {
	t.Helper()
	c, err := openstack.New(os.DirFS("testdata/templates"), os.DirFS("../kustomize/testdata/base"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// facts returns the facts of a cluster with two hosts, whose objects exist: the configuration of a
// host without one would be garbage-collected.
func facts(t *testing.T, c client.Client, name string) plan.Facts {
	t.Helper()
	var hosts []openstack.Host
	for i, address := range []string{"10.99.0.101", "10.99.0.102"} {
		h := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-node%d", name, i+1)}, Spec: region.HostSpec{Role: region.RoleCompute, Profile: name}}
		if err := c.Create(t.Context(), h); apierrors.IsAlreadyExists(err) {
			err = c.Get(t.Context(), client.ObjectKeyFromObject(h), h)
			if err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, openstack.Host{Name: h.Name, UID: h.UID, Address: address})
	}
	images := map[string]oci.Image{}
	for _, i := range []string{"keystone", "mariadb"} {
		images[i] = oci.Image{Repository: "openstack/epoxy/" + i, Digest: "sha256:" + strings.Repeat("a", 64), Version: "1"}
	}
	return plan.Facts{Input: openstack.Input{
		Cluster: &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: region.OpenStackClusterSpec{
			OpenStackDeclaration: region.OpenStackDeclaration{Name: name, Release: region.ReleaseEpoxy, Address: "10.99.0.1"}}},
		RegionName: "r1", DataDir: "/var/lib/regiond", Secrets: map[string]any{"keystone": map[string]any{"password": "0123456789abcdef"}},
		Images: oci.Set{Release: "epoxy", Images: images},
		Hosts:  hosts,
	}}
}

func state(t *testing.T, f plan.Facts) *openstack.State {
	t.Helper()
	s, err := composer(t).Desired(f.Input)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apply(t *testing.T, c client.Client, f plan.Facts, s *openstack.State) (written []string) {
	t.Helper()
	refs, err := rollout.Apply(t.Context(), c, s.Objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refs {
		written = append(written, r.Kind)
	}
	writes := map[string]plan.NodeWrite{}
	for name, conf := range s.Nodes {
		writes[name] = plan.NodeWrite{Configuration: conf, Up: true}
	}
	hosts, err := plan.ApplyNodes(t.Context(), c, f.Cluster, writes, f.Hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return append(written, hosts...)
}

func planOf(t *testing.T, c client.Client, f plan.Facts, s *openstack.State) (*plan.Cluster, string) {
	t.Helper()
	p, err := plan.OfState(t.Context(), c, f, s)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (&plan.Plan{Region: "r1", Clusters: []*plan.Cluster{p}}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return p, b.String()
}

// versions returns the resource versions of everything that was applied for a cluster.
func versions(t *testing.T, c client.Client, s *openstack.State, f plan.Facts) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, o := range s.Objects {
		live := o.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
			t.Fatal(err)
		}
		all[o.GetKind()+"/"+o.GetName()] = live.GetResourceVersion()
	}
	for _, h := range f.Hosts {
		all[h.Name] = nodeSecret(t, c, h.Name).ResourceVersion
	}
	return all
}

func nodeSecret(t *testing.T, c client.Client, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: host.Namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}
