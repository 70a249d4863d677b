package enrollserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enroll"
	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// Machine is what is known of a machine that asks what to boot.
type Machine struct {
	MAC          net.HardwareAddr
	UUID, Serial string
	Address      netip.Addr
}

// Netboot decides whether a machine that netboots is given the installer. It returns a fresh ticket,
// or nil for 'boot your disk'.
func (s *Server) Netboot(ctx context.Context, m Machine) (*enroll.Ticket, error) {
	log := s.Log.With(slog.String("mac", m.MAC.String()), slog.String("address", m.Address.String()), slog.String("uuid", m.UUID))
	var list region.ServerList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("netboot of %s: list servers: %w", m.MAC, err)
	}
	found := server.Match(list.Items, fingerprint.New(m.UUID, m.Serial, m.MAC.String()))
	if len(found) != 1 {
		var names []string
		for _, f := range found {
			names = append(names, f.Name)
		}
		// A machine that can't be told for certain is never installed.
		log.Warn("netboot: the machine is not exactly one server, it is told to boot its disk", slog.String("serial", m.Serial), slog.Any("servers", names))
		return nil, nil
	}
	srv := found[0]
	log = log.With(slog.String("server", srv.Name))
	now := s.Now()
	before := srv.DeepCopy()
	if srv.Status.Netboot == nil {
		srv.Status.Netboot = &region.NetbootStatus{}
	}
	srv.Status.Netboot.LastSeen = &metav1.Time{Time: now}
	srv.Status.Netboot.MACAddress = m.MAC.String()
	srv.Status.Netboot.Address = ""
	if m.Address.IsValid() {
		srv.Status.Netboot.Address = m.Address.String()
	}
	if err := s.Client.Status().Patch(ctx, srv, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("server %s: record the network boot: %w", srv.Name, err)
	}
	need, err := s.needsJob(ctx, srv, list.Items)
	if err != nil {
		return nil, err
	}
	if !need {
		log.Info("netboot: no job, the machine is told to boot its disk")
		return nil, nil
	}
	token, err := s.issue(ctx, kindTicket, srv, map[string]string{
		keyMAC: m.MAC.String(), keyAddress: srv.Status.Netboot.Address, keySystemUUID: m.UUID})
	if err != nil {
		return nil, err
	}
	s.metrics.tokens.WithLabelValues(kindTicket, "issued").Inc()
	log.Info("netboot: ticket issued")
	return &enroll.Ticket{URL: s.URL, CA: string(s.CA), Token: token, MACAddress: m.MAC.String(), Time: now.UTC().Format(time.RFC3339)}, nil
}

// needsJob says whether a server is to be installed; all are all servers.
func (s *Server) needsJob(ctx context.Context, srv *region.Server, all []region.Server) (bool, error) {
	w, err := server.ReadWish(ctx, s.Client, s.RegionName, srv)
	if err != nil {
		return false, err
	}
	f, err := server.ReadFacts(ctx, s.Client, srv)
	if err != nil {
		return false, err
	}
	f.Duplicates = server.Duplicates(all, srv)
	return srv.DeletionTimestamp.IsZero() && server.NeedsJob(w, f, s.Now()), nil
}
