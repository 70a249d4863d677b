package tunnel

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// Sizes of packets in bytes, and how often and how long an answer is waited for.
const (
	headers  = 20 + 8 // of IPv4 without options and of ICMP (RFC 791, RFC 792)
	nonce    = 8
	smallest = 576 // what every host takes (RFC 791)
	largest  = 65535
	tries    = 5
	patience = time.Second
)

// outcome of the tries of one end.
type outcome int

const (
	// silent: nothing is known, since small packets are not answered either.
	silent outcome = iota
	// passes: packets of the size are answered.
	passes
	// stopped: small packets are answered, those of the size never were, or the host's own link
	// does not take them.
	stopped
)

// probe sends echo requests with DF set, small ones and those of the size, and says what came of
// them. An answer may come back in fragments: the way back is the other end's to try.
func probe(ctx context.Context, local netip.Addr, to []netip.Addr, size int) (map[netip.Addr]outcome, error) {
	conn, err := listen(ctx, local)
	if err != nil {
		return nil, fmt.Errorf("probe the MTU of tunnels: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	p := &prober{conn: conn, to: to, sizes: [2]int{headers + nonce, size}, state: map[netip.Addr]*state{}, mark: make([]byte, nonce)}
	rand.Read(p.mark) // never fails (crypto/rand)
	for _, a := range to {
		p.state[a] = &state{}
	}
	for range tries {
		p.send()
		if err := p.receive(time.Now().Add(patience)); err != nil || ctx.Err() != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		if p.done() {
			break
		}
	}
	found := map[netip.Addr]outcome{}
	for a, s := range p.state {
		found[a] = s.outcome()
	}
	return found, nil
}

// listen opens a socket for ICMP at an address. Its packets are as large as the link takes,
// whatever was learnt of the path, and have DF set (IP_PMTUDISC_PROBE in ip(7)).
func listen(ctx context.Context, local netip.Addr) (net.PacketConn, error) {
	control := func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		})
		return errors.Join(err, failed)
	}
	return (&net.ListenConfig{Control: control}).ListenPacket(ctx, "ip4:icmp", local.String())
}

// state of one end: what was answered of the two sizes.
type state struct {
	answered [2]bool
	// refused: the host's own link does not take packets of the size.
	refused bool
}

func (s *state) outcome() outcome {
	switch {
	case s.answered[1]:
		return passes
	case s.refused, s.answered[0]:
		return stopped
	}
	return silent
}

type prober struct {
	conn  net.PacketConn
	to    []netip.Addr
	sizes [2]int
	state map[netip.Addr]*state
	// mark is in all packets, and tells them from those of others.
	mark []byte
}

func (p *prober) done() bool {
	return !slices.ContainsFunc(p.to, func(a netip.Addr) bool { return !p.state[a].answered[1] && !p.state[a].refused })
}

// send what has not been answered. The number of a request is that of its size.
func (p *prober) send() {
	for _, a := range p.to {
		s := p.state[a]
		for i, size := range p.sizes {
			if s.answered[i] || s.answered[1] || s.refused {
				continue
			}
			data := make([]byte, size-headers)
			copy(data, p.mark)
			m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: p.id(), Seq: i, Data: data}}
			b, err := m.Marshal(nil)
			if err != nil {
				continue // it is well formed
			}
			// That there is no way at all is not the MTU's fault: it counts as no answer.
			if _, err := p.conn.WriteTo(b, &net.IPAddr{IP: a.AsSlice()}); errors.Is(err, unix.EMSGSIZE) {
				s.refused = true
			}
		}
	}
}

// id of the requests.
func (p *prober) id() int { return int(binary.BigEndian.Uint16(p.mark)) }

// receive answers until all are there, or until a time.
func (p *prober) receive(until time.Time) error {
	if err := p.conn.SetReadDeadline(until); err != nil {
		return err
	}
	b := make([]byte, largest)
	for !p.done() {
		n, from, err := p.conn.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		p.note(b[:n], from)
	}
	return nil
}

// note an answer, if it is one to us.
func (p *prober) note(packet []byte, from net.Addr) {
	ip, ok := from.(*net.IPAddr)
	if !ok {
		return
	}
	a, ok := netip.AddrFromSlice(ip.IP.To4())
	s := p.state[a]
	if !ok || s == nil {
		return
	}
	m, err := icmp.ParseMessage(ipv4.ICMPTypeEchoReply.Protocol(), packet)
	if err != nil || m.Type != ipv4.ICMPTypeEchoReply {
		return
	}
	echo, ok := m.Body.(*icmp.Echo)
	if !ok || echo.ID != p.id() || echo.Seq >= len(p.sizes) || len(echo.Data) != p.sizes[echo.Seq]-headers || string(echo.Data[:nonce]) != string(p.mark) {
		return
	}
	s.answered[echo.Seq] = true
}
