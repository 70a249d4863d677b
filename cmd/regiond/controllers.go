package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/hardware"
)

// metricsAddress is where Prometheus finds regiond's metrics, on this host only.
const metricsAddress = "127.0.0.1:9440"

// runControllers joins the rooms: it gives hardware and components what bootstrap made.
func runControllers(ctx context.Context, rt bootstrap.Runtime) error {
	address, err := netip.ParseAddr(rt.Region.Spec.Networks.Provisioning.Address)
	if err != nil {
		return fmt.Errorf("spec.networks.provisioning.address: %w", err)
	}
	getCertificate, err := rt.CA.ServingCertificate("enroll", "regiond-enroll", address.String())
	if err != nil {
		return fmt.Errorf("certificate of the enrollment API: %w", err)
	}
	probed := make(chan struct{})
	probing, stop := context.WithCancel(ctx)
	go func() {
		defer close(probed)
		if hardware.AwaitNetboot(probing, address) {
			rt.Started()
		}
	}()
	defer func() {
		stop()
		<-probed
	}()
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
		Region: rt.Region, DB: rt.DB, GetCertificate: getCertificate, CA: rt.CA.CertificatePEM(), KubernetesURL: rt.KubernetesURL,
		ImageDir: rt.Region.Spec.Images.Dir, Guests: onHosts, ReportProblems: rt.ReportProblems, Log: rt.Log,
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
