package computehost_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cloud/cloudtest"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// loseSecret deletes the only means of querying the cluster.
func (w *world) loseSecret() {
	w.t.Helper()
	w.must(w.api.Delete(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "openstack-secrets"}}))
}

func (w *world) removeCluster() {
	w.t.Helper()
	w.must(w.api.Delete(w.t.Context(), &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}))
}

// given records that the host was given compute services of a cluster.
func (w *world) given(cluster string) {
	w.t.Helper()
	h := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	h.SetComputeOf([]string{cluster})
	w.must(w.api.Create(w.t.Context(), h))
}

// configured leaves the host as an earlier regiond did, which kept no record: only the host's
// configuration names the cluster.
func (w *world) configured(cluster string) {
	w.t.Helper()
	w.must(w.api.Create(w.t.Context(), &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}))
	w.must(w.api.Create(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "regiond-hosts", Name: "node1",
		Labels: map[string]string{openstack.LabelCluster: cluster}}}))
}

// reporting makes the host one that an earlier regiond configured for a cluster that is gone: only
// its agent's report shows that.
func (w *world) reporting() {
	w.t.Helper()
	h := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	h.Status.Configuration = &region.HostConfiguration{Digest: "x", Processes: []region.HostProcess{{Service: "nova-compute.service", State: "active"}}}
	w.must(w.api.Create(w.t.Context(), h))
}

// A cluster that can't be queried may have guests on the host: nothing is powered off, deleted or
// disabled, forced or not.
func TestUnseenGuestsAreNotLost(t *testing.T) {
	tests := map[string]struct {
		given func(w *world)
		want  string // part of the refusal; empty if the host may be retired
	}{
		"its secret is missing":                     {func(w *world) { w.given("lab"); w.loseSecret() }, "openstack-lab/openstack-secrets is missing"},
		"its secret is missing, no record was kept": {func(w *world) { w.configured("lab"); w.loseSecret() }, "openstack-lab/openstack-secrets is missing"},
		"it is removed":                             {func(w *world) { w.given("lab"); w.removeCluster() }, "no longer declared"},
		"it is removed, no record was kept":         {func(w *world) { w.reporting(); w.removeCluster() }, "agent reports nova-compute"},
		"another one is removed":                    {func(w *world) { w.given("old") }, "OpenStack cluster old"},
		"it never gave the host services":           {func(w *world) { w.given(""); w.loseSecret() }, ""},
		"it knows the host, no record was kept":     {func(w *world) { w.reporting() }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.given(w)
			if tt.want == "" {
				if err := w.inspect().Refusal(); err != nil {
					t.Errorf("got the refusal %v, want none", err)
				}
				return
			}
			for _, force := range []bool{false, true} {
				if err := w.retire(force); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--abandon-guests") {
					t.Errorf("force %v: got %v, want %q and the remedy", force, err, tt.want)
				}
			}
			if err := w.inspect().Removable(); err == nil {
				t.Error("Removable: got no error, want a refusal")
			}
			s := &region.Server{}
			w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, s))
			if writes := w.cloud.Writes(); s.Spec.Retired || len(writes) > 0 || w.left() != 3 {
				t.Errorf("got retired %t and the requests %q, want nothing changed", s.Spec.Retired, writes)
			}
		})
	}
}

func TestAbandonedGuests(t *testing.T) {
	w := newWorld(t)
	w.given("old")
	s := w.inspect()
	if err := s.Abandon([]string{"lab"}); err == nil || !strings.Contains(err.Error(), "can't be asked") {
		t.Errorf("abandoning guests of a cluster that can be queried: got %v, want a refusal", err)
	}
	if err := s.Abandon([]string{"old"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Refusal(); err != nil {
		t.Errorf("got the refusal %v, want none", err)
	}
	if steps := s.Steps(); !strings.Contains(steps[0], "OpenStack old: abandon its guests") {
		t.Errorf("the plan does not begin with the guests that are lost: %q", steps)
	}
}

// The scheduler allocates a host's resources to an instance before it is on the host, and a resize
// leaves the disk behind until it is confirmed.
func TestGuestsInFlightAreNotLost(t *testing.T) {
	w := newWorld(t)
	w.cloud.Allocate(providerUUID, "vm2")
	w.cloud.Add("/compute/v2.1/servers/detail", cloudtest.Item{"id": "vm2", "name": "db", "host": "node2", "status": "VERIFY_RESIZE"})
	if err := w.retire(true); err == nil || !strings.Contains(err.Error(), "db (vm2") {
		t.Errorf("got %v, want a refusal that names the instance", err)
	}
	if writes := w.cloud.Writes(); len(writes) > 0 {
		t.Errorf("a host with guests was changed: %q", writes)
	}
}

// A compute service that is left in a cloud would still be given guests.
func TestHostWithServicesIsNotRemoved(t *testing.T) {
	w := newWorld(t)
	if err := w.inspect().Removable(); err == nil || !strings.Contains(err.Error(), "regiond server retire node1") {
		t.Errorf("got %v, want the command that removes them", err)
	}
	w.must(w.retire(false))
	if err := w.inspect().Removable(); err != nil {
		t.Errorf("after retirement: got %v, want no refusal", err)
	}
}

func TestRefusalIsBounded(t *testing.T) {
	w := newWorld(t)
	for range 500 {
		w.cloud.Add("/compute/v2.1/servers/detail", cloudtest.Item{"name": "shop", "host": "node1", "status": "ACTIVE"})
	}
	err := w.inspect().Refusal()
	if err == nil || len(err.Error()) > 4000 || !strings.Contains(err.Error(), "500 instances") || !strings.Contains(err.Error(), "and 480 more") {
		t.Errorf("got %v, want at most 4000 characters that name some of 500 instances", err)
	}
	if strings.Contains(err.Error(), "migrate") || !strings.Contains(err.Error(), "server image create") {
		t.Errorf("got the remedy %v, want one that works", err)
	}
}
