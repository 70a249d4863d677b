package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// A bundle's contribution reaches the host that it is for, and no other.
func TestContributionsReachTheirHost(t *testing.T) {
	cluster := "lab"
	secret := func(name, contributor, content string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: host.Namespace,
			Labels: map[string]string{plan.LabelContributor: contributor, openstack.LabelCluster: cluster}},
			Data: map[string][]byte{configuration.SecretKey: []byte(content)}}
	}
	compute := func(name string) *region.Host {
		return &region.Host{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: region.HostSpec{Role: region.RoleCompute}}
	}
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: host.Namespace, Labels: map[string]string{"regiond.dev/configuration": "true"}},
		Data: map[string][]byte{configuration.SecretKey: []byte("merged")}}
	c := fakeAPI(t, compute("n1"), compute("n2"), own, secret("n1.ovs-dpdk", "ovs-dpdk", "one"), secret("n1.vpn", "vpn", "two"),
		secret("gone.vpn", "vpn", "three")).Build()
	of := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	r := &region.Region{}
	r.Spec.Networks.Provisioning.CIDR = "10.99.0.0/24"
	hosts, err := plan.Hosts(t.Context(), c, r, of)
	if err != nil || len(hosts) != 2 {
		t.Fatalf("%+v %v", hosts, err)
	}
	want := map[string][]byte{"ovs-dpdk": []byte("one"), "vpn": []byte("two")}
	if !reflect.DeepEqual(hosts[0].Contributions, want) || hosts[1].Contributions != nil {
		t.Errorf("got %q and %q, want %q and none", hosts[0].Contributions, hosts[1].Contributions, want)
	}

	// A contribution that reaches no host is reported and does not block the cluster.
	for name, contributor := range map[string]string{"n2": "vpn", "n2-vpn": "vpn", "n2.edge": "vpn", "n2.": ""} {
		if err := c.Create(t.Context(), secret(name, contributor, "four")); err != nil {
			t.Fatal(err)
		}
	}
	f, err := plan.Gather(t.Context(), c, r, pinned(of))
	if err != nil || len(f.Hosts) != 2 || f.Hosts[1].Contributions != nil {
		t.Errorf("with contributions whose names have no host: got %+v, %v; want the hosts unchanged", f.Hosts, err)
	}
	strays := []string{
		"Secret regiond-hosts/gone.vpn adds nothing to any host: the cluster has no host gone; name it HOST.vpn after an existing host, or delete it",
		"Secret regiond-hosts/n2 adds nothing to any host: its label regiond.dev/contributor is vpn; name it HOST.vpn",
		"Secret regiond-hosts/n2-vpn adds nothing to any host: its label regiond.dev/contributor is vpn; name it HOST.vpn",
		"Secret regiond-hosts/n2. adds nothing to any host: its label regiond.dev/contributor is empty; set it to the name of the contributor",
		"Secret regiond-hosts/n2.edge adds nothing to any host: its label regiond.dev/contributor is vpn; name it HOST.vpn",
	}
	if !slices.Equal(f.Stray, strays) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(f.Stray, "\n"), strings.Join(strays, "\n"))
	}
}

// pinned makes a cluster's images known.
func pinned(c *region.OpenStackCluster) *region.OpenStackCluster {
	c.Spec.Pinned = openstack.NewPin("t", oci.Set{Release: "epoxy"})
	return c
}
