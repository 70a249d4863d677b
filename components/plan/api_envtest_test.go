//go:build envtest

package plan_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/test/apiserver"
)

var regiondFlag = flag.String("regiond", "../../bin/regiond", "a built regiond, for its API server, etcd and controller manager")

// newAPI starts the real API server, and the controller that orphans a StatefulSet's pods.
func newAPI(t *testing.T) client.Client {
	t.Helper()
	s := apiserver.Start(t, *regiondFlag)
	s.Controllers(t, "garbage-collector-controller")
	return s.Client
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
