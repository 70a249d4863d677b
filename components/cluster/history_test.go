package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
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
