package cluster_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/service"
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
