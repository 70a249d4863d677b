package cluster_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
)

// What a bundle adds to a host reaches it, or the cluster says why not: a Secret with another name
// than its contributor's label wants is not dropped without a word.
func TestMisnamedContributionIsTold(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.host("node1", "10.99.0.101")
	w.until(always(c), "the host is configured", func() bool { return w.configured("node1") })
	content, _, err := configuration.Configuration{Files: []configuration.File{{Path: "/etc/vpn.conf", Mode: "0644", Owner: "root", Group: "root",
		Content: "peer = 192.0.2.1"}}}.Encode()
	w.must(err)
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "regiond-hosts", Name: name,
			Labels: map[string]string{openstack.LabelCluster: "lab", plan.LabelContributor: "vpn"}}, Data: map[string][]byte{configuration.SecretKey: content}}
	}
	misnamed := secret("node1-vpn")
	w.must(w.api.Create(t.Context(), misnamed))
	w.until(always(c), "the misnamed one is told", func() bool {
		return strings.Contains(w.condition(region.ConditionConfigured).Message, "Secret regiond-hosts/node1-vpn adds nothing to any host")
	})
	if k := w.condition(region.ConditionConfigured); k.Status != metav1.ConditionTrue {
		t.Errorf("got %+v, want that the cluster does not stand still for it", k)
	}
	if strings.Contains(w.desires()["Secret regiond-hosts/node1"], "peer = 192.0.2.1") {
		t.Error("a contribution reached a host that it does not name")
	}
	w.must(w.api.Delete(t.Context(), misnamed), w.api.Create(t.Context(), secret("node1.vpn")))
	w.until(always(c), "it reaches its host", func() bool {
		w.agent("node1")
		return strings.Contains(w.desires()["Secret regiond-hosts/node1"], "peer = 192.0.2.1")
	})
	if m := w.condition(region.ConditionConfigured).Message; strings.Contains(m, "adds nothing") {
		t.Errorf("got %q, want nothing more of the misnamed one", m)
	}
}
