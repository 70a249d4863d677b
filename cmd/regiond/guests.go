package main

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/region/scheme"
)

// guests lets the hardware controllers ask the region's OpenStack clusters about the instances on a
// host.
type guests struct {
	api client.Client
	log *slog.Logger
}

func newGuests(conf *rest.Config, log *slog.Logger) (*guests, error) {
	api, err := client.New(conf, client.Options{Scheme: scheme.New()})
	return &guests{api: api, log: log}, err
}

// Vacate implements server.Guests.
func (g *guests) Vacate(ctx context.Context, host string) error {
	survey, err := computehost.Look(ctx, g.api, host, cluster.Target)
	if err != nil {
		return err
	}
	return survey.Vacate(ctx, g.progress(host))
}

// Forget implements server.Guests.
func (g *guests) Forget(ctx context.Context, host string) error {
	survey, err := computehost.Look(ctx, g.api, host, cluster.Target)
	if err != nil {
		return err
	}
	return survey.Forget(ctx, g.progress(host))
}

func (g *guests) progress(host string) func(string) {
	return func(text string) {
		g.log.Info("host leaves its OpenStack cluster", slog.String("host", host), slog.String("step", text))
	}
}
