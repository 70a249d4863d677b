package computehost

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/region"
)

// Guests removes hosts from the region's OpenStack clusters, unless they have guests there.
type Guests struct {
	API client.Client
	// Target returns the addresses and credentials of a cluster's services, as for Inspect.
	Target func(*region.OpenStackCluster, map[string]any) gate.Target
	Log    *slog.Logger
}

// Vacate is Survey.Vacate of a host.
func (g Guests) Vacate(ctx context.Context, host string) error {
	survey, err := Inspect(ctx, g.API, host, g.Target)
	if err != nil {
		return err
	}
	return survey.Vacate(ctx, g.progress(host))
}

// Forget is Survey.Forget of a host.
func (g Guests) Forget(ctx context.Context, host string) error {
	survey, err := Inspect(ctx, g.API, host, g.Target)
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
