// Package netboot leads a server from its firmware to the installer, or to its own disk: DHCP,
// TFTP for the first loader, HTTP for all that follows. The three parts are packages of their
// own; this one binds their sockets to the provisioning network and runs them together.
package netboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"regiond.dev/regiond/hardware/netboot/dhcp"
	"regiond.dev/regiond/hardware/netboot/httpboot"
	"regiond.dev/regiond/hardware/netboot/tftp"
	"regiond.dev/regiond/hardware/sightings"
)

// Client, Job and Decider are the question of a netbooting machine, its answer, and who gives it.
type (
	Client  = httpboot.Client
	Job     = httpboot.Job
	Decider = httpboot.Decider
)

// Config of the netboot services.
type Config struct {
	// Interface and Address of this host on the provisioning network.
	Interface string
	Address   netip.Addr
	Network   netip.Prefix
	// Gateway, DNS and NTP are told to clients. Gateway may be invalid, for none.
	Gateway  netip.Addr
	DNS, NTP []netip.Addr
	// RangeFirst and RangeLast bound the leased addresses, both included.
	RangeFirst, RangeLast netip.Addr
	// Reserved addresses in the range are never leased.
	Reserved  []netip.Addr
	LeaseTime time.Duration

	// Sightings note what is seen of machines; nil for none.
	Sightings *sightings.Sightings
	DB        *bbolt.DB
	Decider   Decider
	// Kernel and Initramfs return the paths of the installer's files to serve now.
	Kernel, Initramfs func() (path string, err error)
	// ImageDir is the images folder, see httpboot.Config.
	ImageDir string
	// LoaderDir holds snponly.efi and undionly.kpxe of Debian's package ipxe.
	LoaderDir string

	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// scope is a registry whose metrics end with Run, so that it can be run again.
type scope struct {
	prometheus.Registerer
	mine []prometheus.Collector
}

// Register keeps what it registers.
func (s *scope) Register(c prometheus.Collector) error {
	err := s.Registerer.Register(c)
	if err == nil {
		s.mine = append(s.mine, c)
	}
	return err
}

func (s *scope) end() {
	for _, c := range s.mine {
		s.Unregister(c)
	}
}

// Run serves until ctx is done, or until one part fails, which ends the others too. All sockets
// are bound before the first packet is answered.
func Run(ctx context.Context, c Config) error {
	if c.Metrics != nil {
		m := &scope{Registerer: c.Metrics}
		defer m.end()
		c.Metrics = m
	}
	d, err := dhcp.New(dhcp.Config{
		Interface: c.Interface, Address: c.Address, Network: c.Network, Gateway: c.Gateway,
		DNS: c.DNS, NTP: c.NTP, RangeFirst: c.RangeFirst, RangeLast: c.RangeLast, Reserved: c.Reserved,
		LeaseTime: c.LeaseTime, DB: c.DB, Sightings: c.Sightings, Metrics: c.Metrics, Log: c.Log.With(slog.String("service", "dhcp")),
	})
	if err != nil {
		return fmt.Errorf("netboot: %w", err)
	}
	t, err := tftp.New(tftp.Config{
		Dir: c.LoaderDir, Files: []string{dhcp.LoaderBIOS, dhcp.LoaderUEFI}, Leases: d, Sightings: c.Sightings,
		Metrics: c.Metrics, Log: c.Log.With(slog.String("service", "tftp")),
	})
	if err != nil {
		return fmt.Errorf("netboot: %w", err)
	}
	h, err := httpboot.New(httpboot.Config{
		Address: c.Address, Decider: c.Decider, Leases: d, Kernel: c.Kernel, Initramfs: c.Initramfs,
		Loader: filepath.Join(c.LoaderDir, dhcp.LoaderUEFI), ImageDir: c.ImageDir, Sightings: c.Sightings,
		Metrics: c.Metrics, Log: c.Log.With(slog.String("service", "http")),
	})
	if err != nil {
		return fmt.Errorf("netboot: %w", err)
	}

	s, err := listen(ctx, c.Interface, c.Address)
	if err != nil {
		return fmt.Errorf("netboot: %w", err)
	}
	defer s.close()
	c.Log.Info("netboot services are up", slog.String("interface", c.Interface), slog.String("address", c.Address.String()),
		slog.String("range", c.RangeFirst.String()+"-"+c.RangeLast.String()))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.Serve(ctx, s.dhcp) })
	g.Go(func() error { return t.Serve(ctx, s.tftp) })
	g.Go(func() error { return h.Serve(ctx, s.http) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("netboot: %w", err)
	}
	return nil
}
