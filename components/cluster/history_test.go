package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// TestHistory: the Events of a cluster tell what was passed and what was removed, each once.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.host("node1", "10.99.0.101")
	w.until(always(c), "ready", func() bool { w.agents("node1"); return w.ready() })
	w.reconcile(c)
	if up := w.events.Lines("node1: Normal ServicesUp: "); len(up) != 1 {
		t.Errorf("got %d Events of a host whose services came up, want 1; all of them:\n%s", len(up), strings.Join(w.events.Lines("node1: "), "\n"))
	}
	history := w.events.Lines("lab: ")
	for _, want := range []string{"lab: Normal Proved: MariaDB is True: ", "lab: Normal Proved: Neutron is True: ", "lab: Normal Applied: Configured is True: ",
		"lab: Normal Ready: Ready is True: "} {
		n := 0
		for _, l := range history {
			if strings.HasPrefix(l, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("got %d Events %q, want 1; all of them:\n%s", n, want, strings.Join(history, "\n"))
		}
	}
	w.reconcile(c)
	if later := w.events.Lines("lab: "); !slices.Equal(later, history) {
		t.Errorf("Events of a reconciliation in which nothing happened:\n%s", strings.Join(later[len(history):], "\n"))
	}
	w.must(w.api.Delete(t.Context(), w.cluster(), client.PropagationPolicy("Background")))
	for range 3 {
		w.reconcile(c)
	}
	if removed := w.events.Lines("lab: Normal Removed: all objects of the cluster"); len(removed) != 1 {
		t.Errorf("got %d Events of the cluster's removal, want 1; all of them:\n%s", len(removed), strings.Join(w.events.Lines("lab: "), "\n"))
	}
	if left := w.events.Lines("node1: Normal LeftCluster: "); len(left) != 1 {
		t.Errorf("got %d Events of a host whose cluster was removed, want 1; all of them:\n%s", len(left), strings.Join(w.events.Lines("node1: "), "\n"))
	}
}

// A start of regiond, and a while in which Nova can't be asked, are not something that has happened
// to hosts: there would be two Events for each of them every time.
func TestHistoryOfHostsHasNoStartsOfRegiond(t *testing.T) {
	w := newWorld(t)
	w.readyHosts()
	before := w.events.Lines("node1: ")
	c := w.controller()
	w.reconcile(c)
	if h := w.openstackOf("node1"); h == nil || h.Ready {
		t.Errorf("node1 is %+v before this process has seen it, want that it is not ready", h)
	}
	w.until(always(c), "ready again", w.ready)
	if after := w.events.Lines("node1: "); !slices.Equal(after, before) || !w.openstackOf("node1").Ready {
		t.Errorf("Events of a start:\n%s", strings.Join(after[len(before):], "\n"))
	}
	// What has happened meanwhile is told when it is seen.
	w.cloud.failing[region.ConditionNova] = errors.New("503")
	w.now = w.now.Add(5 * time.Minute)
	w.reconcile(c)
	w.cloud.hosts["node1"].Service.State = "down"
	w.reconcile(c)
	if after := w.events.Lines("node1: "); !slices.Equal(after, before) {
		t.Errorf("Events while Nova can't be asked:\n%s", strings.Join(after[len(before):], "\n"))
	}
	delete(w.cloud.failing, region.ConditionNova)
	w.until(always(c), "its loss is told", func() bool { return len(w.events.Lines("node1: Warning ServicesNotReady: ")) == 1 })
	if up := w.events.Lines("node2: "); len(up) != len(before) {
		t.Errorf("Events of a host to which nothing has happened:\n%s", strings.Join(up, "\n"))
	}
}

// openstackOf a host is how the cluster sees it.
func (w *world) openstackOf(name string) *region.HostOpenStack {
	w.t.Helper()
	h := &region.Host{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, h))
	return h.Status.OpenStack
}
