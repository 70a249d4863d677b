package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

var threeHosts = []string{"node1", "node2", "node3"}

// hosts that are ready.
func (w *world) readyHosts() {
	w.t.Helper()
	c := w.controller()
	for i, name := range threeHosts {
		w.host(name, []string{"10.99.0.101", "10.99.0.102", "10.99.0.103"}[i])
	}
	w.until(always(c), "ready", func() bool {
		w.agents(threeHosts...)
		return w.ready()
	})
}

// agents apply what they are given, and their services come up.
func (w *world) agents(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.agent(name)
		w.register(name)
	}
}

// option of nova.conf is changed by an apply.
func (w *world) option(value string) {
	w.t.Helper()
	o := w.cluster()
	o.Generation++
	o.Spec.Values = &runtime.RawExtension{Raw: []byte(`{"nova": {"conf": {"DEFAULT": {"vif_plugging_timeout": ` + value + `}}}}`)}
	w.must(w.api.Update(w.t.Context(), o))
}

// killed again and again: a process lives for as many reconciliations as it takes to prove again
// what was proved before, and one more.
func (w *world) killed() func() *cluster.Controller {
	turns, c := 0, w.controller()
	return func() *cluster.Controller {
		if turns++; turns%5 == 0 {
			c = w.controller()
		}
		return c
	}
}

// with are the hosts whose stored configuration has an option.
func (w *world) with(value string) []string {
	w.t.Helper()
	var all []string
	for _, name := range threeHosts {
		if strings.Contains(w.desires()["Secret regiond-hosts/"+name], "vif_plugging_timeout = "+value) {
			all = append(all, name)
		}
	}
	return all
}

// TestHostsChangeOneByOne: three hosts may not be away together, also if regiond is killed again and again.
func TestHostsChangeOneByOne(t *testing.T) {
	w := newWorld(t)
	w.readyHosts()
	w.option("298")
	var seen []string
	w.until(w.killed(), "all hosts have the option", func() bool {
		if now := strings.Join(w.with("298"), " "); !slices.Contains(seen, now) {
			seen = append(seen, now)
		}
		w.agents(threeHosts...)
		return len(w.with("298")) == 3
	})
	if want := []string{"", "node1", "node1 node2", "node1 node2 node3"}; !slices.Equal(seen, want) && !slices.Equal(seen, want[1:]) {
		t.Errorf("hosts got the option as %q, want one after the other", seen)
	}
	w.until(always(w.controller()), "ready", func() bool { w.agents(threeHosts...); return w.ready() })
}

func TestFailedCanaryStops(t *testing.T) {
	w := newWorld(t)
	w.readyHosts()
	w.option("298")
	c := w.controller()
	w.until(always(c), "the canary has it", func() bool { return len(w.with("298")) == 1 })
	for range 3 {
		w.reconcile(c)
	}
	if got := w.with("298"); len(got) != 1 {
		t.Errorf("before the canary has proved it, %v have the option", got)
	}
	w.now = w.now.Add(plan.ProofLimit + time.Minute) // its agent does not say that it runs it
	next := w.killed()
	for range 14 { // the last process has been there for five reconciliations
		w.reconcile(next())
	}
	if got := w.with("298"); len(got) != 1 {
		t.Errorf("after the canary failed, %v have the option", got)
	}
	if k := w.condition(region.ConditionNodes); k.Status != metav1.ConditionFalse || k.Reason != region.ReasonRolloutStopped || !strings.HasPrefix(k.Message, "host node1: the change has failed on this host") {
		t.Errorf("%+v", k)
	}
	// The repaired option reaches the host that failed first.
	w.option("297")
	w.until(w.killed(), "the first host has the repaired option", func() bool { return len(w.with("297")) > 0 })
	if got := w.with("297"); !slices.Equal(got, []string{"node1"}) {
		t.Errorf("%v have the repaired option first", got)
	}
	w.until(w.killed(), "all have it", func() bool { w.agents(threeHosts...); return len(w.with("297")) == 3 && w.ready() })
}

// TestGuestsAreNotCutOff: a change of Open vSwitch waits on hosts with guests until they have none, or someone consents.
func TestGuestsAreNotCutOff(t *testing.T) {
	w := newWorld(t)
	w.readyHosts()
	for _, name := range threeHosts {
		h := w.cloud.hosts[name]
		h.Guests = 2
		w.cloud.hosts[name] = h
	}
	before := w.desires()
	o := w.cluster()
	o.Generation++
	o.Spec.PhysicalNetworks = []region.PhysicalNetwork{{Name: "physnet1", Interface: "data0", VLANs: "100-199"}}
	w.must(w.api.Update(t.Context(), o))
	c := w.controller()
	for range 20 {
		w.reconcile(c)
	}
	for _, name := range threeHosts {
		if w.desires()["Secret regiond-hosts/"+name] != before["Secret regiond-hosts/"+name] {
			t.Errorf("%s got the change, and has guests", name)
		}
	}
	if k := w.condition(region.ConditionNodes); k.Reason != region.ReasonWaitingForDrain || !strings.Contains(k.Message, "regiond apply --disrupt") {
		t.Errorf("%+v", k)
	}
	// One host is drained.
	h := w.cloud.hosts["node2"]
	h.Guests = 0
	w.cloud.hosts["node2"] = h
	for range 20 {
		w.reconcile(c)
		w.agents(threeHosts...)
	}
	for _, name := range threeHosts {
		if changed := w.desires()["Secret regiond-hosts/"+name] != before["Secret regiond-hosts/"+name]; changed != (name == "node2") {
			t.Errorf("%s got the change: %v", name, changed)
		}
	}
	w.must(plan.Disrupt(t.Context(), w.api, "lab"))
	w.until(always(c), "ready after consent", func() bool { w.agents(threeHosts...); return w.ready() })
	if plan.MayDisrupt(w.cluster()) != true {
		t.Error("the consent is lost")
	}
	w.option("298")
	if plan.MayDisrupt(w.cluster()) {
		t.Error("the consent holds for another declaration")
	}
}
