package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
)

// Errors of the link.
var (
	errNoAnswer = errors.New("no answer")
	// errRefused: the host of the BMC says that nobody listens (ICMP port unreachable), or cannot be reached.
	errRefused = errors.New("refused")
)

// waits is how long each attempt of an exchange waits for its answer.
type waits []time.Duration

// link is a UDP socket to one BMC. It is used by one goroutine at a time.
type link struct {
	conn     net.Conn
	attempts waits
	dropped  func() // is called for each datagram that does not answer
	tag      uint8  // of the last handshake message; late answers to an earlier handshake have another one
	buffer   [rmcp.MaxPacket]byte
}

// dial makes the socket. It is connected, so that ICMP errors arrive and other senders' packets do not.
func dial(ctx context.Context, address netip.AddrPort, attempts waits, dropped func()) (*link, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address.String())
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return &link{conn: conn, attempts: attempts, dropped: dropped}, nil
}

func (l *link) close() {
	// Nothing is buffered in a UDP socket that could be lost.
	_ = l.conn.Close()
}

// once is a single attempt that waits as long as all attempts together.
func (l *link) once() waits {
	var sum time.Duration
	for _, w := range l.attempts {
		sum += w
	}
	return waits{sum}
}

// exchange sends what build makes and receives until accept takes a datagram. Late answers to earlier attempts
// count. Datagrams that accept does not take are dropped and counted.
func (l *link) exchange(ctx context.Context, waits waits, build func() ([]byte, error), accept func([]byte) bool) error {
	stop := context.AfterFunc(ctx, func() {
		// The only effect of a deadline in the past is that the Read below returns.
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()

	var total time.Duration
	for _, wait := range waits {
		packet, err := build()
		if err != nil {
			return err
		}
		if err := l.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := l.conn.Write(packet); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		total += wait
		for {
			n, err := l.conn.Read(l.buffer[:])
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("%w: %w", errRefused, err)
			}
			if accept(l.buffer[:n]) {
				return nil
			}
			l.dropped()
		}
	}
	return fmt.Errorf("%w to %d attempts within %s", errNoAnswer, len(waits), total)
}
