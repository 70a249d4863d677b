package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv4"
)

// Server answers DHCP.
type Server struct {
	config  Config
	pool    *Pool
	metrics *metrics
	// warned is when the exhausted range was last logged, in Unix seconds.
	warned atomic.Int64
}

// workers bounds the requests that are handled at a time. One may wait up to maxProbes probes.
const workers = 256

// maxProbes is how many addresses are probed for one DISCOVER; the client asks again anyway.
const maxProbes = 2

// New reads the leases and makes a server.
func New(c Config) (*Server, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Prober == nil {
		c.Prober = ARPProber{Interface: c.Interface}
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("DHCP on %s: %w", c.Interface, err)
	}
	pool, err := NewPool(c)
	if err != nil {
		return nil, fmt.Errorf("DHCP on %s: %w", c.Interface, err)
	}
	s := &Server{config: c, pool: pool}
	if s.metrics, err = newMetrics(c.Metrics, func() float64 { return float64(pool.Count(c.Now())) }); err != nil {
		return nil, fmt.Errorf("DHCP on %s: register metrics: %w", c.Interface, err)
	}
	return s, nil
}

// Holder is the station that an address is leased to now.
func (s *Server) Holder(a netip.Addr) (net.HardwareAddr, bool) {
	return s.pool.Holder(a, s.config.Now())
}

// Serve answers packets from conn until ctx is done, and closes conn. conn is bound to the
// interface and port 67. (server4 of the DHCP library is not used: it binds with SO_REUSEPORT,
// which hides a second server on the host, and drops malformed packets without telling.)
func (s *Server) Serve(ctx context.Context, conn *net.UDPConn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	ifi, err := net.InterfaceByName(s.config.Interface)
	if err != nil {
		return fmt.Errorf("DHCP on %s: %w", s.config.Interface, err)
	}
	out := &sender{conn: ipv4.NewPacketConn(conn), control: ipv4.ControlMessage{
		IfIndex: ifi.Index,
		// The kernel would choose the interface's first address, not regiond's.
		Src: ip(s.config.Address),
	}}
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, workers)
	buf := make([]byte, 4096)
	for {
		n, _, err := conn.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("DHCP on %s: %w", s.config.Interface, err)
		}
		if err != nil {
			// ICMP errors of earlier packets (the interface went down) show here; they pass.
			s.config.Log.Warn("DHCP read failed", slog.String("interface", s.config.Interface), slog.Any("error", err))
			continue
		}
		r, err := Parse(buf[:n])
		if err != nil {
			s.drop(dropReason(err), slog.Any("error", err), slog.Int("bytes", n))
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			s.drop("busy", slog.String("client", r.Client))
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.handle(ctx, out, r)
		})
	}
}

// sender writes from the server's address.
type sender struct {
	conn    *ipv4.PacketConn
	control ipv4.ControlMessage
}

func (s *sender) send(b []byte, to netip.AddrPort) error {
	control := s.control // WriteTo may be called by many at a time
	_, err := s.conn.WriteTo(b, &control, net.UDPAddrFromAddrPort(to))
	return err
}

// handle one request.
func (s *Server) handle(ctx context.Context, out *sender, r Request) {
	s.metrics.requests.WithLabelValues(typeLabel(r.Type)).Inc()
	reply := s.answer(ctx, r)
	s.config.Sightings.DHCP(r.MAC, r.Boot.netboots(), r.Boot.UUID, reply.Drop)
	log := s.config.Log.With(slog.String("client", r.Client))
	if reply.Unsupported {
		s.metrics.unsupported.WithLabelValues(architectures(r.Boot)).Inc()
		log.Warn("no boot loader for this firmware; it gets an address only", slog.String("architecture", architectures(r.Boot)), slog.Any("uuid", r.Boot.UUID))
	}
	if reply.Drop != "" {
		s.drop(reply.Drop, slog.String("client", r.Client), slog.String("type", r.Type.String()))
	}
	if reply.Packet == nil || ctx.Err() != nil {
		return
	}
	if err := out.send(reply.Packet.ToBytes(), reply.To); err != nil {
		log.Error("DHCP reply was not sent", slog.Any("to", reply.To), slog.Any("error", err))
		return
	}
	t := reply.Packet.MessageType().String()
	s.metrics.replies.WithLabelValues(t).Inc()
	log.Info("DHCP "+t, slog.String("address", reply.Packet.YourIPAddr.String()), slog.String("file", reply.Packet.BootFileName), slog.Any("to", reply.To), slog.Any("uuid", r.Boot.UUID))
}

// answer decides, and makes the effect durable.
func (s *Server) answer(ctx context.Context, r Request) Reply {
	known := s.pool.Lookup(r)
	if r.Type == dhcpv4.MessageTypeDiscover && onLink(r, s.config) {
		own, err := s.reserve(ctx, r)
		switch {
		case errors.Is(err, errProbing):
			return Reply{Drop: "probing"}
		case errors.Is(err, errExhausted):
			s.exhausted(r)
		case err != nil:
			s.config.Log.Error("no address was chosen for a client", slog.String("client", r.Client), slog.Any("error", err))
			return Reply{Drop: "database"}
		}
		known.Own = own
	}
	reply := Decide(r, known, s.config, s.config.Now())
	if reply.Effect == EffectQuarantine {
		s.metrics.conflicts.Inc()
		s.config.Log.Error("a client found its address in use: find the station that uses it (arping) and move it out of the DHCP range",
			slog.String("address", reply.Address.String()), slog.String("client", r.Client), slog.Duration("quarantine", quarantine))
	}
	if err := s.pool.Apply(r.Client, reply); err != nil {
		s.config.Log.Error("lease was not recorded, so it is not given", slog.String("client", r.Client), slog.Any("error", err))
		return Reply{Drop: "database"}
	}
	return reply
}

// reserve an address that nobody uses.
func (s *Server) reserve(ctx context.Context, r Request) (Lease, error) {
	for range maxProbes {
		l, probe, err := s.pool.Reserve(r.Client, r.Requested, s.config.Now())
		if err != nil || !probe {
			return l, err
		}
		user, err := s.config.Prober.Probe(ctx, l.Address)
		if err != nil {
			s.config.Log.Warn("address could not be probed, offering it all the same", slog.Any("lease", l), slog.Any("error", err))
		}
		if user == nil || user.String() == r.Client {
			return s.pool.Offer(l, s.config.Now()), nil
		}
		s.metrics.conflicts.Inc()
		s.config.Log.Error("address in the DHCP range is used by a station that did not lease it: move it out of the range",
			slog.String("address", l.Address.String()), slog.String("station", user.String()), slog.Duration("quarantine", quarantine))
		stranger := Reply{Effect: EffectQuarantine, Address: l.Address, Expires: s.config.Now().Add(quarantine)}
		if err := s.pool.Apply(r.Client, stranger); err != nil {
			return Lease{}, err
		}
	}
	return Lease{}, errProbing
}

// exhausted counts, and logs once a minute.
func (s *Server) exhausted(r Request) {
	s.metrics.exhausted.Inc()
	now := s.config.Now().Unix()
	if last := s.warned.Load(); now-last >= 60 && s.warned.CompareAndSwap(last, now) {
		s.config.Log.Error("no DHCP address for a client: widen the DHCP range of the provisioning network or shorten the lease time",
			slog.String("client", r.Client), slog.String("range", s.config.RangeFirst.String()+"-"+s.config.RangeLast.String()))
	}
}

func (s *Server) drop(reason string, attrs ...any) {
	s.metrics.drops.WithLabelValues(reason).Inc()
	s.config.Log.LogAttrs(context.Background(), slog.LevelDebug, "DHCP packet not answered", slog.String("reason", reason), slog.Group("packet", attrs...))
}

// typeLabel names a message type that clients send. The others share one label.
func typeLabel(t dhcpv4.MessageType) string {
	if t >= dhcpv4.MessageTypeDiscover && t <= dhcpv4.MessageTypeInform {
		return t.String()
	}
	return "other"
}

// architectures names option 93 for a label. Its values come from clients: only the first known
// one is named, so that nobody can make labels without end.
func architectures(f Firmware) string {
	for _, a := range f.Architectures {
		if s := a.String(); !strings.HasPrefix(s, "unknown") {
			return s
		}
	}
	return "unknown"
}
