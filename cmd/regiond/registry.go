package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/registry"
)

// listenRegistry opens the registry of component images at the seed host's management address.
func listenRegistry(rt bootstrap.Runtime) (*registry.Server, error) {
	networks := rt.Region.Spec.Networks
	text := networks.Provisioning.Address
	if networks.Management != nil {
		text = networks.Management.Address
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("spec.networks: the seed host's management address: %w", err)
	}
	pair, err := rt.CA.Issue("registry", pki.Request{CN: "regiond-registry", SANs: []string{address.String(), oci.Registry}, Usages: pki.Server})
	if err != nil {
		return nil, err
	}
	certificate, err := pair.Follow()
	if err != nil {
		return nil, fmt.Errorf("certificate of the registry: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(rt.CA.Certificate())
	return registry.Listen(registry.Config{
		Address: netip.AddrPortFrom(address, config.RegistryPort), Layout: oci.LayoutDir(rt.Region.Spec.Images.Dir),
		Certificate: certificate, Clients: clients, Log: rt.Log,
	})
}

// withRegistry serves the registry of component images while controllers run. It listens before
// they start, as what they roll out is pulled from it.
func withRegistry(controllers func(context.Context, bootstrap.Runtime) error) func(context.Context, bootstrap.Runtime) error {
	return func(ctx context.Context, rt bootstrap.Runtime) error {
		server, err := listenRegistry(rt)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return server.Serve(ctx) })
		group.Go(func() error {
			defer stop()
			return controllers(ctx, rt)
		})
		return group.Wait()
	}
}
