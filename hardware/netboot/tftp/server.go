// Package tftp serves the boot loaders to PXE firmware (RFC 1350, 2347, 2348, 2349). It serves
// these and nothing else: TFTP is slow and loses packets, so that all that follows is HTTP.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"regiond.dev/regiond/hardware/sightings"
)

// Port of TFTP.
const Port = 69

// MaxBlockSize in bytes (RFC 2348): what fits into an Ethernet frame without fragments, which
// many ROMs cannot put together (1500 - headers).
const MaxBlockSize = 1468

// headers of a DATA packet in bytes: 20 IP, 8 UDP, 4 TFTP.
const headers = 32

// maxTransfers at a time; each holds a socket and a file.
const maxTransfers = 256

// Config of the server.
type Config struct {
	// Dir holds the loaders.
	Dir string
	// Files that are served.
	Files []string
	// Leases say which station asks, for Sightings; both nil for none.
	Leases    Leases
	Sightings *sightings.Sightings
	// Timeout is how long an acknowledgement is awaited before a packet is sent again. Default 1 s.
	Timeout time.Duration
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Leases says which station holds an address.
type Leases interface {
	// Holder MUST NOT wait for the station: it answers from what it has. It MAY be called at the same
	// time.
	Holder(netip.Addr) (net.HardwareAddr, bool)
}

// Server of the loaders.
type Server struct {
	config    Config
	transfers *prometheus.CounterVec
	drops     *prometheus.CounterVec
	bytes     prometheus.Counter
	active    atomic.Int64
}

// New makes a server. The files need not exist yet.
func New(c Config) (*Server, error) {
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "regiond", Subsystem: "tftp", Name: name, Help: help}
	}
	s := &Server{
		config:    c,
		transfers: prometheus.NewCounterVec(opts("transfers_total", "Read requests, by file and result."), []string{"file", "result"}),
		bytes:     prometheus.NewCounter(opts("sent_bytes_total", "Bytes of files sent.")),
		drops:     prometheus.NewCounterVec(opts("drops_total", "Packets that were not answered or refused, by reason."), []string{"reason"}),
	}
	if c.Metrics != nil {
		for _, m := range []prometheus.Collector{s.transfers, s.bytes, s.drops} {
			if err := c.Metrics.Register(m); err != nil {
				return nil, fmt.Errorf("TFTP: register metrics: %w", err)
			}
		}
	}
	return s, nil
}

// Serve answers requests from conn until ctx is done and running transfers ended, and closes conn.
func (s *Server) Serve(ctx context.Context, conn *net.UDPConn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the read below
	defer stop()
	var transfers sync.WaitGroup
	defer transfers.Wait() // they end at their next packet
	largest := blockSize(conn.LocalAddr())
	buffer := make([]byte, 2048)
	for {
		n, peer, err := conn.ReadFromUDP(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("TFTP on %s ended by itself: %w", conn.LocalAddr(), err)
		case err != nil:
			s.config.Log.Debug("TFTP: packet not read", slog.Any("error", err)) // ICMP errors of earlier answers
			continue
		}
		r, err := parseRequest(buffer[:n])
		switch {
		case err != nil:
			s.drops.WithLabelValues("malformed").Inc()
			s.config.Log.Debug("TFTP: packet dropped", slog.String("peer", peer.String()), slog.Any("error", err))
		case r.op == opWrite:
			s.drops.WithLabelValues("write-request").Inc()
			s.config.Log.Warn("TFTP: write request refused", slog.String("peer", peer.String()))
			s.refuse(conn, peer, codeAccess, "write requests are not taken")
		case s.active.Load() >= maxTransfers:
			s.transfers.WithLabelValues("other", "busy").Inc()
			s.refuse(conn, peer, codeUndefined, "too many transfers, try again")
		default:
			s.active.Add(1)
			transfers.Go(func() {
				defer s.active.Add(-1)
				s.read(ctx, conn, peer, r, largest)
			})
		}
	}
}

// refuse answers a request by an error. That it gets lost is all that can happen: the client asks again.
func (s *Server) refuse(conn *net.UDPConn, peer *net.UDPAddr, code uint16, text string) {
	_, _ = conn.WriteToUDP(errorPacket(code, text), peer)
}

// blockSize is MaxBlockSize, or less on an interface with a small MTU.
func blockSize(local net.Addr) int {
	size := MaxBlockSize
	udp, ok := local.(*net.UDPAddr)
	if !ok {
		return size
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return size
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(udp.IP) {
				size = min(size, i.MTU-headers)
			}
		}
	}
	return size
}

// read answers a read request.
func (s *Server) read(ctx context.Context, conn *net.UDPConn, peer *net.UDPAddr, r request, largest int) {
	log := s.config.Log.With(slog.String("peer", peer.IP.String()), slog.String("file", r.file))
	if s.config.Leases != nil {
		if mac, ok := s.config.Leases.Holder(peer.AddrPort().Addr().Unmap()); ok {
			s.config.Sightings.TFTP(mac)
		}
	}
	file, ok := s.file(r.file)
	if !ok {
		// iPXE asks for autoexec.ipxe on each start: a quick no is what it needs.
		s.transfers.WithLabelValues("other", "not-found").Inc()
		log.Debug("TFTP: no such file")
		s.refuse(conn, peer, codeNotFound, "file not found")
		return
	}
	f, size, err := open(s.config.Dir, file)
	if err != nil {
		s.transfers.WithLabelValues(file, "missing").Inc()
		log.Error("TFTP: boot loader cannot be served: build the netboot image again", slog.Any("error", err))
		s.refuse(conn, peer, codeNotFound, "file not found")
		return
	}
	defer f.Close()
	// From the address that was asked: firmware drops answers from another one.
	local := &net.UDPAddr{IP: conn.LocalAddr().(*net.UDPAddr).IP}
	own, err := net.DialUDP("udp", local, peer)
	if err != nil {
		s.transfers.WithLabelValues(file, "failed").Inc()
		log.Warn("TFTP: no socket for a transfer; the firmware asks again", slog.Any("error", err))
		return
	}
	defer own.Close()
	begun := time.Now()
	blockSize, agreed := agree(r.options, size, largest)
	n, err := (&transfer{conn: own, timeout: s.config.Timeout}).run(ctx, f, blockSize, agreed)
	switch {
	case err == nil:
		s.transfers.WithLabelValues(file, "sent").Inc()
		s.bytes.Add(float64(n))
		log.Info("TFTP: sent", slog.Int64("bytes", n), slog.Float64("seconds", time.Since(begun).Seconds()))
	case errors.Is(err, errOptionsOnly):
		// EDK2 asks once for the size alone (RFC 2349) and ends that transfer with an error.
		s.transfers.WithLabelValues(file, "size-only").Inc()
		log.Debug("TFTP: size asked")
	default:
		s.transfers.WithLabelValues(file, "failed").Inc()
		log.Warn("TFTP: transfer failed; the firmware asks again", slog.Int64("bytes", n), slog.Any("error", err))
	}
}

// file finds the name among those that are served. Firmware writes it with any number of slashes or
// backslashes before it. PXE firmware that takes DHCP's option 67 for text up to a zero byte appends
// what follows it in the packet, mostly 0xFF, the end of the options; bytes that are not part of any
// name end it. The name is only compared, never used as a path.
func (s *Server) file(name string) (string, bool) {
	name = strings.TrimLeft(name, `/\`)
	for _, f := range s.config.Files {
		if rest, ok := strings.CutPrefix(name, f); ok && (rest == "" || rest[0] < '!' || rest[0] > '~') {
			return f, true
		}
	}
	return "", false
}

// open a loader. An empty one is an error: firmware would run what is not there.
func open(dir, name string) (*os.File, int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		err = fmt.Errorf("%s/%s is empty or not a regular file", dir, name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
