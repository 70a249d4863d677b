package plan_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// What bundles add to hosts reaches the host that it is for, and no other.
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

	if err := c.Create(t.Context(), secret("n2", "vpn", "four")); err != nil {
		t.Fatal(err)
	}
	if hosts, err = plan.Hosts(t.Context(), c, r, of); err != nil || len(hosts) != 2 || hosts[1].Contributions != nil {
		t.Errorf("with a contribution whose name does not tell its host: got %+v, %v, want the hosts as before", hosts, err)
	}
}
