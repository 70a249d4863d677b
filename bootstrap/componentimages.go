package bootstrap

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/containerd"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/registry"
)

// withRegistry serves the registry of component images while controllers run. It listens before
// they start, because workloads that they roll out pull from it.
func (r *run) withRegistry(ctx context.Context, controllers func(context.Context) error) error {
	server, err := listenRegistry(r.pki.Cluster, r.requirements.Management, r.region.Spec.Images.Dir, r.log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error {
		defer stop()
		return controllers(ctx)
	})
	return group.Wait()
}

// listenRegistry opens the registry on an address of this host. Its clients are the containerds
// that bootstrap/kube/config configures: they connect by address or as oci.Registry, and present a
// certificate of the same authority.
func listenRegistry(ca *pki.Authority, address netip.Addr, imageDir string, log *slog.Logger) (*registry.Server, error) {
	certificate, err := ca.ServingCertificate("registry", "regiond-registry", address.String(), oci.Registry)
	if err != nil {
		return nil, fmt.Errorf("certificate of the registry: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ca.Certificate())
	return registry.Listen(registry.Config{
		Address: netip.AddrPortFrom(address, config.RegistryPort), Layout: oci.LayoutDir(imageDir),
		Certificate: certificate, Clients: clients, Log: log,
	})
}

// pinImages pulls the images of a set to this host and pins them.
func (r *run) pinImages(ctx context.Context, set oci.Set) error {
	c, err := containerd.Open(config.ContainerdSocket(r.dataDir), r.region.Spec.Images.Dir)
	if err != nil {
		return err
	}
	err = c.EnsurePulled(ctx, set, func(image string, number, of int) {
		r.log.Info("pulling component image", slog.String("image", image), slog.Int("number", number), slog.Int("of", of))
	})
	return errors.Join(err, c.Close())
}
