// Package tftp serves the boot loaders to PXE firmware (RFC 1350, 2347, 2348, 2349). It serves
// these and nothing else: TFTP is slow and loses packets, so that all that follows is HTTP.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pin/tftp/v3"
	"github.com/prometheus/client_golang/prometheus"
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
	// Timeout is how long an acknowledgement is awaited before a packet is sent again. Default 1 s.
	Timeout time.Duration
	Metrics prometheus.Registerer
	Log     *slog.Logger
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
	// A nil write handler refuses write requests.
	t := tftp.NewServer(func(name string, to io.ReaderFrom) error { return s.read(ctx, name, to) }, nil)
	t.SetBlockSize(blockSize(conn.LocalAddr()))
	t.SetBlockSizeNegotiation(false)
	t.SetTimeout(s.config.Timeout)
	t.SetRetries(5)
	t.SetBackoff(func(int) time.Duration { return 0 }) // the time-out is pause enough
	t.SetHook(hook{s})
	done := make(chan error, 1)
	go func() { done <- t.Serve(conn) }()
	select {
	case <-ctx.Done():
		t.Shutdown() // waits for the transfers, which end at their next packet
		<-done
		return nil
	case err := <-done:
		return fmt.Errorf("TFTP on %s ended by itself: %w", conn.LocalAddr(), errors.Join(err, net.ErrClosed))
	}
}

// blockSize is MaxBlockSize, or less on an interface with a small MTU. The library's own look at
// the MTU is switched off: it forgets TFTP's header, and falls back to 512 bytes when interfaces
// come and go at the moment of a request.
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

// Errors that clients are told.
var (
	errNotFound = errors.New("file not found")
	errBusy     = errors.New("too many transfers, try again")
)

// read answers a read request.
func (s *Server) read(ctx context.Context, name string, to io.ReaderFrom) error {
	out, ok := to.(tftp.OutgoingTransfer)
	if !ok {
		return errNotFound
	}
	peer := out.RemoteAddr()
	log := s.config.Log.With(slog.String("peer", peer.IP.String()), slog.String("file", name))
	file, ok := s.file(name)
	if !ok {
		// iPXE asks for autoexec.ipxe on each start: a quick no is what it needs.
		s.transfers.WithLabelValues("other", "not-found").Inc()
		log.Debug("TFTP: no such file")
		return errNotFound
	}
	if s.active.Add(1) > maxTransfers {
		s.active.Add(-1)
		s.transfers.WithLabelValues(file, "busy").Inc()
		return errBusy
	}
	defer s.active.Add(-1)
	f, size, err := open(s.config.Dir, file)
	if err != nil {
		s.transfers.WithLabelValues(file, "missing").Inc()
		log.Error("TFTP: boot loader cannot be served: build the netboot image again", slog.Any("error", err))
		return errNotFound
	}
	defer f.Close()
	out.SetSize(size)
	begun := time.Now()
	n, err := to.ReadFrom(&reader{ctx: ctx, r: f})
	switch {
	case err == nil:
		s.transfers.WithLabelValues(file, "sent").Inc()
		s.bytes.Add(float64(n))
		log.Info("TFTP: sent", slog.Int64("bytes", n), slog.Float64("seconds", time.Since(begun).Seconds()))
	case strings.HasPrefix(err.Error(), "sending block 0:"):
		// EDK2 asks once for the size alone (RFC 2349) and ends that transfer with an error.
		s.transfers.WithLabelValues(file, "size-only").Inc()
		log.Debug("TFTP: size asked")
	default:
		s.transfers.WithLabelValues(file, "failed").Inc()
		log.Warn("TFTP: transfer failed; the firmware asks again", slog.Int64("bytes", n), slog.Any("error", err))
	}
	return err
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

// reader ends a transfer when the server does. It hides that the file can seek, for its size
// is already known.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// hook hears of what the library drops.
type hook struct{ s *Server }

// OnSuccess is counted in read.
func (hook) OnSuccess(tftp.TransferStats) {}

// OnFailure is called for malformed packets, without a peer, and for refused and failed requests.
func (h hook) OnFailure(stats tftp.TransferStats, err error) {
	switch {
	case stats.RemoteAddr == nil:
		h.s.drops.WithLabelValues("malformed").Inc()
		h.s.config.Log.Debug("TFTP: packet dropped", slog.Any("error", err))
	case strings.Contains(err.Error(), "write requests"):
		h.s.drops.WithLabelValues("write-request").Inc()
		h.s.config.Log.Warn("TFTP: write request refused", slog.String("peer", stats.RemoteAddr.String()))
	}
}
