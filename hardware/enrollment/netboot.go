package enrollment

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
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
	keys := fingerprint.New(m.UUID, m.Serial, m.MAC.String())
	found := server.Match(list.Items, keys)
	if len(found) != 1 {
		for _, srv := range server.Contradicting(list.Items, keys) {
			if err := s.noteContradiction(ctx, srv, m); err != nil {
				log.Warn("netboot: a contradiction was not recorded", slog.String("server", srv.Name), slog.Any("error", err))
			}
		}
		var names []string
		for _, f := range found {
			names = append(names, f.Name)
		}
		// A machine that can't be told for certain is never installed.
		log.Warn("netboot: the machine is not exactly one server, it is told to boot its disk", slog.String("serial", m.Serial), slog.Any("servers", names))
		return nil, nil
	}
	srv := found[0]
	w, f, err := s.read(ctx, srv, list.Items)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	job := server.NeedsJob(w, f, m.MAC.String(), now)
	if srv.DeletionTimestamp != nil {
		job = server.Job{Because: "the server is being deleted"}
	}
	s.reasons.log(log.With(slog.String("server", srv.Name)), srv.Name, job)
	if err := s.recordNetboot(ctx, srv, m, job.Needed, now); err != nil {
		return nil, err
	}
	if !job.Needed {
		return nil, nil
	}
	token, err := s.issue(ctx, kindTicket, srv, map[string]string{
		keyMAC: m.MAC.String(), keyAddress: srv.Status.Netboot.Address, keySystemUUID: m.UUID, keyBMCAddress: srv.Status.Netboot.BMCAddress,
		keyRequested: stamp(srv.Status.Netboot.Requested.Time), keyExpires: stamp(now.Add(server.TicketTime))})
	if err != nil {
		return nil, err
	}
	s.metrics.tokens.WithLabelValues(kindTicket, "issued").Inc()
	return &enroll.Ticket{URL: s.URL, CA: string(s.CA), Token: token, MACAddress: m.MAC.String(), Time: stamp(now)}, nil
}

// noteContradiction makes it a condition of a server whose network boot is waited for that a
// machine came which is it by one key and not by another. Others don't learn of it: anyone on the
// network can say so of any server.
func (s *Server) noteContradiction(ctx context.Context, srv *region.Server, m Machine) error {
	if n := srv.Status.Netboot; n == nil || n.Requested == nil || n.Answered != nil || n.Ended != nil {
		return nil
	}
	before := srv.DeepCopy()
	known := region.BMCStatus{}
	if srv.Status.BMC != nil {
		known = *srv.Status.BMC
	}
	if !meta.SetStatusCondition(&srv.Status.Conditions, metav1.Condition{Type: region.ConditionMachineIdentity, Status: metav1.ConditionFalse,
		Reason: region.ReasonIdentityConflict, ObservedGeneration: srv.Generation,
		Message: fmt.Sprintf("the machine with the MAC address %s netbooted and says system UUID %q, serial number %q, where the BMC says %q and %q: it is not taken for this server; "+
			"if it is, correct what its firmware or its BMC says", m.MAC, m.UUID, m.Serial, known.SystemUUID, known.SerialNumber)}) {
		return nil
	}
	event.Conditions(s.Events, srv, before.Status.Conditions, srv.Status.Conditions)
	return s.Client.Status().Patch(ctx, srv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// recordNetboot writes down that a machine asked, before it is given a ticket.
func (s *Server) recordNetboot(ctx context.Context, srv *region.Server, m Machine, answer bool, now time.Time) error {
	before := srv.DeepCopy()
	if srv.Status.Netboot == nil {
		srv.Status.Netboot = &region.NetbootStatus{}
	}
	meta.RemoveStatusCondition(&srv.Status.Conditions, region.ConditionMachineIdentity)
	n := srv.Status.Netboot
	n.LastSeen, n.MACAddress, n.Address = &metav1.Time{Time: now}, m.MAC.String(), ""
	if m.Address.IsValid() {
		n.Address = m.Address.String()
	}
	switch {
	case answer && n.Answered == nil:
		n.Answered, n.AnsweredMACAddress = n.LastSeen, n.MACAddress
	case !answer && server.Restarted(before):
		n.Ended = n.LastSeen
	}
	// Of two that ask at the same time one is answered.
	if err := s.Client.Status().Patch(ctx, srv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("server %s: record the network boot: %w", srv.Name, err)
	}
	return nil
}

// read collects what decisions about a server are made from; all are all servers.
func (s *Server) read(ctx context.Context, srv *region.Server, all []region.Server) (server.Desired, server.Facts, error) {
	w, err := server.ReadDesired(ctx, s.Client, s.RegionName, srv)
	if err != nil {
		return server.Desired{}, server.Facts{}, err
	}
	f, err := server.ReadFacts(ctx, s.Client, srv)
	if err != nil {
		return server.Desired{}, server.Facts{}, err
	}
	f.Duplicates = server.Duplicates(all, srv)
	return w, f, nil
}

// reasons remembers why servers were given the installer or not, so that only changes are logged.
type reasons struct {
	mu sync.Mutex
	of map[string]server.Job
}

func (r *reasons) log(log *slog.Logger, name string, job server.Job) {
	r.mu.Lock()
	old, known := r.of[name]
	if r.of == nil {
		r.of = map[string]server.Job{}
	}
	r.of[name] = job
	r.mu.Unlock()
	level := slog.LevelInfo
	if known && old == job {
		level = slog.LevelDebug
	}
	text := "netboot: the machine is told to boot its disk"
	if job.Needed {
		text = "netboot: the machine is given a ticket"
	}
	log.Log(context.Background(), level, text, slog.String("because", job.Because))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
