package main

import (
	"context"
	"log/slog"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/hardware"
)

// metricsAddress is where Prometheus finds regiond's metrics, on this host only.
const metricsAddress = "127.0.0.1:9440"

// runControllers joins the rooms: it gives hardware and components what bootstrap made.
func runControllers(ctx context.Context, rt bootstrap.Runtime) error {
	onHosts, err := newGuests(rt.REST, rt.Log.With(slog.String("component", "guests")))
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{REST: rt.REST, Host: rt.Host, Cached: []manager.Cached{hardware.Cached(), cluster.Cached()},
		MetricsAddress: metricsAddress, Log: rt.Log})
	if err != nil {
		return err
	}
	release, err := hardware.Setup(ctx, m, hardware.Config{
		Region: rt.Region, DB: rt.DB, ServingCertificate: rt.CA.ServingCertificate, CA: rt.CA.CertificatePEM(), KubernetesURL: rt.KubernetesURL,
		ImageDir: rt.Region.Spec.Images.Dir, Guests: onHosts, Started: rt.Started, ReportProblems: rt.ReportProblems, Log: rt.Log,
	})
	if err != nil {
		return err
	}
	defer release()
	if err := cluster.Setup(m, cluster.Config{Region: rt.Region, DataDir: rt.DataDir, Pin: rt.PinImages, Log: rt.Log}); err != nil {
		return err
	}
	return m.Start(ctx)
}
