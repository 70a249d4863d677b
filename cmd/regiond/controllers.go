package main

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/hardware"
	"regiond.dev/regiond/region/scheme"
)

// metricsAddress is where Prometheus finds regiond's metrics, on this host only.
const metricsAddress = "127.0.0.1:9440"

// runControllers joins the rooms: it gives hardware and components what bootstrap made.
func runControllers(ctx context.Context, rt bootstrap.Runtime, regionFile string) error {
	api, err := client.New(rt.REST, client.Options{Scheme: scheme.New()})
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
		ImageDir: rt.Region.Spec.Images.Dir, Started: rt.Started, ReportProblems: rt.ReportProblems, Log: rt.Log,
		Guests: computehost.Guests{API: api, Target: cluster.Target, Log: rt.Log.With(slog.String("component", "guests"))},
	})
	if err != nil {
		return err
	}
	defer release()
	if err := cluster.Setup(m, cluster.Config{Region: rt.Region, DataDir: rt.DataDir, Pin: rt.PinImages, Log: rt.Log}); err != nil {
		return err
	}
	if err := scheduleBackups(m, rt, api, regionFile); err != nil {
		return err
	}
	return m.Start(ctx)
}
