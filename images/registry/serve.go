package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"
)

// Limits for clients. A host fetches a few blobs at a time.
const (
	maxConnections = 256
	headerTimeout  = 10 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	// transferTimeout bounds the transfer of one blob: 150 MB to the slowest of 256 hosts over one 1
	// Gbit/s link take five minutes.
	transferTimeout = 15 * time.Minute
	stopTimeout     = 5 * time.Second
)

// Config configures a server.
type Config struct {
	// Address to listen on.
	Address netip.AddrPort
	// Layout is the folder of images (oci.LayoutDir).
	Layout string
	// Certificate of the server.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients are the authorities that sign hosts' client certificates.
	Clients *x509.CertPool
	Log     *slog.Logger
}

// Server is a listening registry.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen opens the registry's port. The images need not exist yet.
func Listen(c Config) (*Server, error) {
	listener, err := net.Listen("tcp", c.Address.String())
	if err != nil {
		return nil, fmt.Errorf("registry of component images: %w", err)
	}
	return serverOf(c, listener), nil
}

func serverOf(c Config, listener net.Listener) *Server {
	return &Server{
		listener: netutil.LimitListener(listener, maxConnections),
		server: &http.Server{
			Handler: Handler(c.Layout, c.Log),
			TLSConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, GetCertificate: c.Certificate,
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.Clients,
			},
			ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: transferTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeaderBytes,
			ErrorLog:       slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // failed handshakes of clients
		},
	}
}

// Serve serves until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.server.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("registry of component images: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.server.Shutdown(stopping); err != nil {
		err = errors.Join(err, s.server.Close())
		return fmt.Errorf("registry of component images: %w", err)
	}
	return nil
}
