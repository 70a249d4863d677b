package cluster_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// configured hosts have a configuration stored.
func (w *world) configured(name string) bool { return w.desires()["Secret regiond-hosts/"+name] != "" }

// TestHostsWaitForTheirUsers: a host isn't given a configuration whose passwords Keystone would refuse.
func TestHostsWaitForTheirUsers(t *testing.T) {
	w := newWorld(t)
	w.cloud.failing["users"] = errors.New("keystone is full")
	c := w.controller()
	w.host("node1", "10.99.0.101")
	w.until(always(c), "the host waits for its users", func() bool {
		return strings.Contains(w.condition(region.ConditionNodes).Message, "keystone is full")
	})
	if w.configured("node1") {
		t.Error("the host has a configuration, and no users")
	}
	delete(w.cloud.failing, "users")
	w.until(always(c), "the host is configured", func() bool { return w.configured("node1") })
	if u := w.cloud.users.Keystone.Users; len(u) != 1 || u[0].Name != "compute-node1" {
		t.Errorf("users %+v, want that of node1", u)
	}
	text := w.desires()["Secret regiond-hosts/node1"]
	if !strings.Contains(text, w.cloud.users.Keystone.Users[0].Password) || !strings.Contains(text, w.cloud.users.RabbitMQ[0].Password) {
		t.Error("the host's configuration has other passwords than its users")
	}
}

// TestEarlierTemplatesHaveNoHostUsers: a cluster that an earlier regiond rolled out keeps its users and secrets until an apply.
func TestEarlierTemplatesHaveNoHostUsers(t *testing.T) {
	w := newWorld(t)
	var err error
	if w.composer, err = openstack.BeforePins(); err != nil {
		t.Fatal(err)
	}
	w.readyHosts()
	if w.cloud.users.Keystone.Prefix != "" {
		t.Errorf("users were made: %+v", w.cloud.users)
	}
	secret := &corev1.Secret{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: openstack.Namespace("lab"), Name: openstack.SecretName}, secret))
	var tree map[string]any
	w.must(json.Unmarshal(secret.Data[openstack.SecretKey], &tree))
	if tree["compute"] != nil {
		t.Error("a secret was generated that the templates do not declare")
	}
}
