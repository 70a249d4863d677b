package httpboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
)

// Bounds of the server.
const (
	// maxConnections at a time; more wait in the kernel's queue.
	maxConnections = 1024
	// maxTransfers of files at a time; more wait for a place, in the order of their arrival.
	// Then each of a rack's machines is served at a useful speed, instead of all running into
	// their time-outs together.
	maxTransfers = 64
	// answerTime bounds one response that is not a file.
	answerTime = 30 * time.Second
)

// Server of the HTTP part.
type Server struct {
	config    Config
	tickets   *tickets
	transfers chan struct{}
	requests  *prometheus.CounterVec
	decisions *prometheus.CounterVec
	bytes     prometheus.Counter
}

// New makes a server.
func New(c Config) (*Server, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "regiond", Subsystem: "netboot_http", Name: name, Help: help}
	}
	s := &Server{
		config:    c,
		tickets:   newTickets(c.Now),
		transfers: make(chan struct{}, maxTransfers),
		requests:  prometheus.NewCounterVec(opts("requests_total", "Requests, by route and status."), []string{"route", "code"}),
		decisions: prometheus.NewCounterVec(opts("decisions_total", "Machines that asked what to do, by answer."), []string{"answer"}),
		bytes:     prometheus.NewCounter(opts("sent_bytes_total", "Bytes of bodies sent.")),
	}
	if c.Metrics != nil {
		for _, m := range []prometheus.Collector{s.requests, s.decisions, s.bytes} {
			if err := c.Metrics.Register(m); err != nil {
				return nil, fmt.Errorf("netboot HTTP: register metrics: %w", err)
			}
		}
	}
	return s, nil
}

// Serve answers requests until ctx is done, and closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      answerTime,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
		// "OPTIONS *" is answered by the handler like all else.
		DisableGeneralOptionsHandler: true,
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err := <-done:
		return fmt.Errorf("netboot HTTP on %s ended: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	// Machines ask again, so that transfers need not be waited for long.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := h.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.Close()
	}
	<-done
	return err
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := s.config.Now()
	rec := &recorder{ResponseWriter: w, code: http.StatusOK}
	rt := match(r.URL)
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case rt.handle == nil:
		http.Error(rec, "not found", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		rec.Header().Set("Allow", "GET, HEAD")
		http.Error(rec, "only GET and HEAD", http.StatusMethodNotAllowed)
	default:
		if rt.name != routeChunk {
			if mac, ok := s.config.Leases.Holder(peer(r)); ok {
				s.config.Sightings.HTTP(mac)
			}
		}
		rt.handle(s, rec, r, rt)
	}
	s.requests.WithLabelValues(rt.name, strconv.Itoa(rec.code)).Inc()
	s.bytes.Add(float64(rec.n))
	level := slog.LevelInfo
	if rt.name == routeChunk || rt.name == routeNone {
		level = slog.LevelDebug // hundreds a machine; strangers
	}
	s.config.Log.LogAttrs(r.Context(), level, "HTTP", slog.String("peer", r.RemoteAddr), slog.String("method", r.Method),
		slog.String("route", rt.name), slog.Int("code", rec.code), slog.Int64("bytes", rec.n),
		slog.Float64("seconds", s.config.Now().Sub(begun).Seconds()))
}

// peer address of a request.
func peer(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

// recorder counts what was sent.
type recorder struct {
	http.ResponseWriter
	code int
	n    int64
}

func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.ResponseWriter.Write(b)
	r.n += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
