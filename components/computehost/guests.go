package computehost

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/region"
)

// Guests tells of any host whether the region's OpenStack clusters have guests on it, and takes the
// host out of them.
type Guests struct {
	API client.Client
	// Target says how a cluster's services are reached, as Look has it.
	Target func(*region.OpenStackCluster, map[string]any) gate.Target
	Log    *slog.Logger
}

// Vacate is Survey.Vacate of a host.
func (g Guests) Vacate(ctx context.Context, host string) error {
	survey, err := Look(ctx, g.API, host, g.Target)
	if err != nil {
		return err
	}
	return survey.Vacate(ctx, g.progress(host))
}

// Forget is Survey.Forget of a host.
func (g Guests) Forget(ctx context.Context, host string) error {
	survey, err := Look(ctx, g.API, host, g.Target)
	if err != nil {
		return err
	}
	return survey.Forget(ctx, g.progress(host))
}

func (g Guests) progress(host string) func(string) {
	return func(text string) {
		g.Log.Info("host leaves its OpenStack cluster", slog.String("host", host), slog.String("step", text))
	}
}
