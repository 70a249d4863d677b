package bmc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
	"regiond.dev/regiond/region"
)

// Presence is a BMC's answer to everybody.
type Presence struct {
	Address netip.AddrPort
	// IPMI20 is set when the BMC said that it accepts IPMI v2.0 sessions. A BMC that only answered
	// the ASF presence ping did not say.
	IPMI20 bool
}

// Timing of Ping. A BMC that is idle answers within milliseconds; one under load takes a second.
const (
	pingAttempts = 3
	pingWait     = time.Second
	// pongGrace is what the better answer gets after a pong, which BMCs send first at times.
	pongGrace = 200 * time.Millisecond
)

// Ping asks whether a BMC answers at an address, without credentials: Get Channel Authentication
// Capabilities and an ASF presence ping side by side, since some BMCs answer only one of the two.
func Ping(ctx context.Context, address netip.AddrPort) (Presence, error) {
	fail := func(reason, detail, advice string, err error) (Presence, error) {
		return Presence{}, &Error{Policy: Retry, Reason: reason, Address: address, Operation: "presence ping", Detail: detail, Advice: advice, Err: err}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address.String())
	if err != nil {
		return fail(region.ReasonUnreachable, "no socket", "check the route to the BMC network", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	p := newProbe()
	buf := make([]byte, rmcp.MaxPacket)
	ponged := false
	for range pingAttempts {
		for _, packet := range p.packets() {
			if _, err := conn.Write(packet); err != nil {
				return fail(region.ReasonUnreachable, "cannot send", "check the route to the BMC network and the port", err)
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(pingWait)); err != nil {
			return fail(region.ReasonUnreachable, "cannot wait", "", err)
		}
		for ctx.Err() == nil {
			n, err := conn.Read(buf)
			if ponged && err != nil {
				return Presence{Address: address}, nil
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fail(region.ReasonUnreachable, "the address answers, but nothing listens", "check the port and that IPMI over LAN is enabled", err)
			}
			switch ipmi20, kind := p.answer(buf[:n]); kind {
			case capabilities:
				return Presence{Address: address, IPMI20: ipmi20}, nil
			case pong:
				ponged = true
				if err := conn.SetReadDeadline(time.Now().Add(pongGrace)); err != nil {
					return fail(region.ReasonUnreachable, "cannot wait", "", err)
				}
			}
		}
		if ctx.Err() != nil {
			return fail(region.ReasonNoAnswer, "cut off while waiting for an answer", "", context.Cause(ctx))
		}
	}
	return fail(region.ReasonNoAnswer, fmt.Sprintf("no answer to %d attempts of %s each", pingAttempts, pingWait),
		"check power and network of the BMC and that IPMI over LAN is enabled", nil)
}

// probe is the pair of questions and what counts as an answer.
type probe struct {
	tag     uint8
	request rmcp.Request
}

func newProbe() probe {
	const tag = 0x17 // any value that an echo of nothing is unlikely to have
	return probe{tag: tag, request: rmcp.AuthCapabilitiesRequest(tag)}
}

func (p probe) packets() [][]byte {
	return [][]byte{rmcp.Encode15(p.request.Encode()), rmcp.PresencePing(p.tag)}
}

// answer is what a datagram is to the questions.
type answer int

const (
	noise answer = iota
	pong
	capabilities
)

func (p probe) answer(b []byte) (ipmi20 bool, kind answer) {
	if ipmi20, err := rmcp.DecodeAuthCapabilities(b, p.request); err == nil {
		return ipmi20, capabilities
	}
	if ipmi, err := rmcp.DecodePresencePong(b, p.tag); err == nil && ipmi {
		return false, pong
	}
	return false, noise
}

// ScanConfig bounds a scan. Zero values are defaults.
type ScanConfig struct {
	// Rate of addresses asked per second. Default 250: two small packets each, less than 0.5 Mbit/s,
	// and the kernel's neighbour table is not overrun by addresses that nobody has.
	Rate int
	// Rounds: addresses that did not answer are asked again. Default 2.
	Rounds int
	// Wait for answers after each round. Default 1 s.
	Wait time.Duration
}

// Scan asks all addresses and gives those where a BMC answered, sorted, each once. It uses one socket: a silent
// address costs two packets and no waiting of its own, so a /16 takes minutes rather than hours.
func Scan(ctx context.Context, addresses []netip.AddrPort, c ScanConfig) ([]Presence, error) {
	c.Rate, c.Rounds, c.Wait = cmp.Or(c.Rate, 250), cmp.Or(c.Rounds, 2), cmp.Or(c.Wait, time.Second)

	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, fmt.Errorf("scan for BMCs: %w", err)
	}
	defer conn.Close()

	pending := map[netip.AddrPort]bool{}
	for _, a := range addresses {
		pending[netip.AddrPortFrom(a.Addr().Unmap(), a.Port())] = true
	}
	s := &scan{conn: conn, probe: newProbe(), pending: pending, found: map[netip.AddrPort]Presence{}}
	for range c.Rounds {
		order := make([]netip.AddrPort, 0, len(pending))
		for a := range pending {
			order = append(order, a)
		}
		slices.SortFunc(order, netip.AddrPort.Compare)
		if err := s.round(ctx, order, time.Second/time.Duration(c.Rate), c.Wait); err != nil {
			return nil, err
		}
		if len(pending) == 0 {
			break
		}
	}
	return slices.SortedFunc(maps.Values(s.found), func(a, b Presence) int { return a.Address.Compare(b.Address) }), nil
}

type scan struct {
	conn    *net.UDPConn
	probe   probe
	pending map[netip.AddrPort]bool // that have not answered with their capabilities
	found   map[netip.AddrPort]Presence
}

// round asks every address once, receiving in the pauses between, and then waits.
func (s *scan) round(ctx context.Context, order []netip.AddrPort, pause, wait time.Duration) error {
	for _, a := range order {
		for _, packet := range s.probe.packets() {
			// Unreachable networks and full neighbour tables are reported here; the address simply
			// counts as silent. A closed socket shows when receiving.
			if _, err := s.conn.WriteToUDPAddrPort(packet, a); err != nil && errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("scan for BMCs: %w", err)
			}
		}
		if err := s.receive(ctx, pause); err != nil {
			return err
		}
	}
	return s.receive(ctx, wait)
}

func (s *scan) receive(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	buf := make([]byte, rmcp.MaxPacket)
	for len(s.pending) > 0 {
		// Short reads, so that the end of the context is seen.
		slice := min(time.Until(until), 100*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("scan for BMCs: %w", context.Cause(ctx))
		}
		if slice <= 0 {
			return nil
		}
		if err := s.conn.SetReadDeadline(time.Now().Add(slice)); err != nil {
			return fmt.Errorf("scan for BMCs: %w", err)
		}
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED):
			continue
		case err != nil:
			return fmt.Errorf("scan for BMCs: %w", err)
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		ipmi20, kind := s.probe.answer(buf[:n])
		if kind == noise || !s.pending[from] {
			continue // not asked, or answered before
		}
		s.found[from] = Presence{Address: from, IPMI20: ipmi20}
		if kind == capabilities {
			delete(s.pending, from)
		}
	}
	return nil
}
