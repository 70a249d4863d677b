package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
)

// Each service's gate has a probe; a gate that nobody can pass would keep a cluster from being ready for ever.
func TestEachGateHasAProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is asked: which probe there is, is all that counts
	p := cluster.Prober{Log: slog.New(slog.DiscardHandler)}
	session := &cloud.Session{ProviderClient: &gophercloud.ProviderClient{}}
	if err := p.Probe(ctx, "Unheard", gate.Target{}, session); err == nil || !strings.Contains(err.Error(), "no gate") {
		t.Errorf("a gate that there is not: got %v, want an error that says so", err)
	}
	for _, s := range service.All {
		if err := p.Probe(ctx, s.Gate, gate.Target{}, session); err != nil && strings.Contains(err.Error(), "no gate") {
			t.Errorf("gate %s: got %v, want a probe", s.Gate, err)
		}
	}
}

// A gate is proved thoroughly once by a process, and again when what it is a proof of has changed:
// such a proof disturbs hosts and users, and a renewed one must not.
func TestThoroughProofs(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	asked := func(turns int) (probed, thorough int) {
		w.cloud.probed, w.cloud.thorough = nil, nil
		for range turns {
			w.reconcile(c)
		}
		count := func(all []string) (n int) {
			for _, g := range all {
				if g == region.ConditionRabbitMQ {
					n++
				}
			}
			return n
		}
		return count(w.cloud.probed), count(w.cloud.thorough)
	}
	if probed, thorough := asked(5); probed < 3 || thorough > 0 || len(w.cloud.thorough) > 0 {
		t.Errorf("renewed proofs: %d of RabbitMQ, thorough ones of %v, want some and none", probed, w.cloud.thorough)
	}
	// A failure in between does not make another thorough one.
	w.cloud.failing[region.ConditionRabbitMQ] = errors.New("connection refused")
	probed, thorough := asked(5)
	delete(w.cloud.failing, region.ConditionRabbitMQ)
	again, more := asked(5)
	if probed == 0 || again == 0 || thorough+more > 0 {
		t.Errorf("proofs while it fails and after: %d and %d, thorough %d and %d; want some, none of them thorough", probed, again, thorough, more)
	}
	// One that fails from the start is tried thoroughly until it is passed.
	w.restarts++
	w.kubelet()
	w.cloud.failing[region.ConditionRabbitMQ] = errors.New("connection refused")
	if probed, thorough := asked(4); probed < 2 || thorough != probed {
		t.Errorf("proofs of what was started anew and fails: %d, thorough %d; want all", probed, thorough)
	}
	delete(w.cloud.failing, region.ConditionRabbitMQ)
	if probed, thorough := asked(5); probed < 2 || thorough != 1 {
		t.Errorf("proofs of what was started anew: %d, thorough %d; want the first one only", probed, thorough)
	}
	// Another process has seen nothing.
	c = w.controller()
	if asked(5); len(w.cloud.thorough) != len(region.Gates)-1 { // Keystone's is a login
		t.Errorf("thorough proofs of a process that was just started: %v, want each gate once", w.cloud.thorough)
	}
}
