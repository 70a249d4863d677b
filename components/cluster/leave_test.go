package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

func TestLeaveDecision(t *testing.T) {
	guests := []string{"shop (vm1, active, project p1)"}
	tests := map[string]struct {
		l    cluster.Leaving
		want cluster.LeaveStep
		part string // of the message
	}{
		"not asked":              {cluster.Leaving{Unasked: "nova: 503", Enabled: true}, cluster.LeaveWait, "nova: 503"},
		"schedulable":            {cluster.Leaving{Enabled: true, Guests: guests, Known: true}, cluster.LeaveDisable, "disabled"},
		"guests":                 {cluster.Leaving{Guests: guests, Known: true}, cluster.LeaveWait, "shop (vm1"},
		"guests, stopped before": {cluster.Leaving{Guests: guests, Known: true, Stopped: true, Applied: true}, cluster.LeaveWait, "1 guests"},
		"no guests":              {cluster.Leaving{Known: true, Applied: true}, cluster.LeaveStop, "stopped"},
		"agent has not stopped":  {cluster.Leaving{Name: "n1", Known: true, Stopped: true}, cluster.LeaveWait, "regiond server retire n1"},
		"stopped":                {cluster.Leaving{Known: true, Stopped: true, Applied: true}, cluster.LeaveForget, "deleted"},
		"forgotten":              {cluster.Leaving{Stopped: true, Applied: true}, cluster.LeaveRelease, "released"},
		"another one's already":  {cluster.Leaving{Known: true, Other: "b"}, cluster.LeaveForget, "deleted"},
		"another one's, guests":  {cluster.Leaving{Guests: guests, Other: "b"}, cluster.LeaveWait, "shop"},
	}
	for name, tt := range tests {
		if step, message := cluster.LeaveDecision(tt.l); step != tt.want || !strings.Contains(message, tt.part) {
			t.Errorf("%s: got %q, %q, want %q and %q", name, step, message, tt.want, tt.part)
		}
	}
}

// profiles of the cluster's hosts.
func (w *world) profiles(names ...string) {
	w.t.Helper()
	c := w.cluster()
	c.Spec.Profiles = names
	w.must(w.api.Update(w.t.Context(), c))
}

func (w *world) profile(host, name string) {
	w.t.Helper()
	h := &region.Host{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: host}, h))
	h.Spec.Profile = name
	w.must(w.api.Update(w.t.Context(), h))
}

// withNode is a cluster with one host of the profile a, which is ready.
func withNode(t *testing.T) (*world, *cluster.Controller) {
	t.Helper()
	w := newWorld(t)
	w.profiles("a")
	c := w.controller()
	w.host("node1", "10.99.0.101")
	w.profile("node1", "a")
	w.cloud.register("node1", "9f2c1b1e-0000-4000-8000-000000000009")
	w.until(always(c), "ready", func() bool {
		w.agent("node1")
		return w.ready()
	})
	return w, c
}

func (w *world) stored() *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "regiond-hosts", Name: "node1"}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return s
}

func (w *world) node(name string) region.OpenStackNode {
	w.t.Helper()
	nodes := w.cluster().Status.Nodes
	if i := slices.IndexFunc(nodes, func(n region.OpenStackNode) bool { return n.Name == name }); i >= 0 {
		return nodes[i]
	}
	return region.OpenStackNode{}
}

func TestHostWithGuestsDoesNotLeave(t *testing.T) {
	w, c := withNode(t)
	w.cloud.guests = map[string][]computehost.Instance{"node1": {{ID: "vm1", Name: "shop", Project: "p1", Status: "ACTIVE"}}}
	before := w.stored().Data["configuration.json"]
	w.profile("node1", "b")
	for range 20 {
		w.reconcile(c)
		w.agent("node1")
	}
	if s := w.stored(); s == nil || string(s.Data["configuration.json"]) != string(before) {
		t.Error("the configuration of a host with guests changed")
	}
	if n := w.node("node1"); n.Ready || !strings.Contains(n.Message, "shop (vm1") {
		t.Errorf("node %+v does not say which guests keep it", n)
	}
	if !slices.Equal(w.cloud.did, []string{"disable node1"}) {
		t.Errorf("did %q, want that it is disabled and nothing else", w.cloud.did)
	}
	// Its profile is declared for the cluster again.
	w.profiles("a", "b")
	w.until(always(c), "ready again", func() bool {
		w.agent("node1")
		return w.ready()
	})
	if !slices.Equal(w.cloud.did, []string{"disable node1", "enable node1"}) {
		t.Errorf("did %q, want that it is enabled again", w.cloud.did)
	}
}

func TestHostWithoutGuestsLeaves(t *testing.T) {
	w, c := withNode(t)
	w.cloud.failing["ask"] = errors.New("nova: 503")
	w.profile("node1", "b")
	for range 5 {
		w.reconcile(c)
	}
	if w.stored() == nil || len(w.cloud.did) > 0 {
		t.Errorf("a host whose guests can't be asked for is dropped; did %q", w.cloud.did)
	}
	delete(w.cloud.failing, "ask")
	w.until(always(c), "its services are to be stopped", func() bool { return !strings.Contains(string(w.stored().Data["configuration.json"]), "nova") })
	if slices.Contains(w.cloud.did, "forget node1") {
		t.Error("its compute service was deleted while it ran: it would register again")
	}
	w.until(always(c), "it is released", func() bool {
		w.agent("node1")
		return w.stored() == nil
	})
	h := &region.Host{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, h))
	if of := h.ComputeOf(); len(of) > 0 || !slices.Equal(w.cloud.did, []string{"disable node1", "forget node1"}) {
		t.Errorf("record %q, did %q", of, w.cloud.did)
	}
	w.until(always(c), "ready without it", w.ready)
}

// openstack is what the status of the host says of its cluster.
func (w *world) openstack() *region.HostOpenStack {
	w.t.Helper()
	h := &region.Host{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: "node1"}, h))
	return h.Status.OpenStack
}

// Each write to a Host wakes all clusters: the one that a host leaves does not write over the one that it goes to.
func TestOneClusterTellsOfAHost(t *testing.T) {
	w, c := withNode(t)
	w.cloud.guests = map[string][]computehost.Instance{"node1": {{ID: "vm1", Name: "shop", Project: "p1", Status: "ACTIVE"}}}
	w.profile("node1", "b")
	w.until(always(c), "the host is to leave", func() bool { return strings.Contains(w.openstack().Message, "shop (vm1") })
	h := &region.Host{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, h))
	h.Status.OpenStack = &region.HostOpenStack{Cluster: "other", Message: "it has compute services of OpenStack cluster lab"}
	w.must(w.api.Status().Update(t.Context(), h))
	w.writes = nil
	for range 10 {
		w.reconcile(c)
	}
	if got := w.openstack(); got.Cluster != "other" || slices.ContainsFunc(w.writes, func(s string) bool { return strings.Contains(s, "*region.Host ") || strings.HasSuffix(s, "Host node1") }) {
		t.Errorf("the status says %+v; wrote %q", got, w.writes)
	}
	w.cloud.guests = nil
	w.until(always(c), "it is released", func() bool {
		w.agent("node1")
		return w.stored() == nil
	})
	w.reconcile(c)
	if got := w.openstack(); got == nil || got.Cluster != "other" {
		t.Errorf("the status says %+v after the release", got)
	}
	// Back again: the cluster that has it as a node writes.
	w.profile("node1", "a")
	w.until(always(c), "it is a node", func() bool { return w.openstack().Cluster == "lab" })
}

func TestStatusOfAFormerNode(t *testing.T) {
	t.Run("released", func(t *testing.T) {
		w, c := withNode(t)
		w.profile("node1", "b")
		w.until(always(c), "it is released", func() bool {
			w.agent("node1")
			return w.stored() == nil
		})
		w.reconcile(c)
		if got := w.openstack(); got != nil {
			t.Errorf("the status says %+v", got)
		}
	})
	t.Run("cluster removed", func(t *testing.T) {
		w, c := withNode(t)
		if got := w.openstack(); got == nil || !got.Ready {
			t.Fatalf("the status says %+v", got)
		}
		w.must(w.api.Delete(t.Context(), w.cluster()))
		for range 10 {
			w.reconcile(c)
		}
		if got := w.openstack(); got != nil {
			t.Errorf("the status says %+v", got)
		}
	})
}

// Two clusters never configure one host: guests of the first may be on it.
func TestHostOfAnotherCluster(t *testing.T) {
	for name, given := range map[string]func(w *world, h *region.Host){
		"recorded": func(w *world, h *region.Host) {
			h.SetComputeOf([]string{"old"})
			w.must(w.api.Create(w.t.Context(), h))
		},
		"no record was kept": func(w *world, h *region.Host) {
			w.must(w.api.Create(w.t.Context(), h))
			s := &corev1.Secret{}
			s.Namespace, s.Name, s.Labels = "regiond-hosts", h.Name, map[string]string{openstack.LabelCluster: "old"}
			w.must(w.api.Create(w.t.Context(), s))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.controller()
			h := &region.Host{}
			h.Name, h.UID, h.Spec.Role, h.Status.Addresses = "node1", types.UID("h1"), region.RoleCompute, []string{"10.99.0.101"}
			given(w, h)
			w.until(always(c), "all gates", func() bool { return w.condition(region.ConditionNeutron).Status == "True" })
			for range 5 {
				w.reconcile(c)
			}
			if s := w.stored(); s != nil && s.Labels[openstack.LabelCluster] != "old" {
				t.Error("it was configured for another cluster")
			}
			if n := w.node("node1"); !strings.Contains(n.Message, "OpenStack cluster old") {
				t.Errorf("node %+v does not say whose it is", n)
			}
		})
	}
}
