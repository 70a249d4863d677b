package enrollment

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/region/event"
)

// Config of the server.
type Config struct {
	// Client reads from the API server itself: tokens are used once, so no cache may lag.
	Client client.Client
	// RegionName of the Region object.
	RegionName string
	// URL under which machines reach this server, https://address:7443.
	URL string
	// CA certificates (PEM) that sign the serving certificate and the hosts' client certificates.
	CA []byte
	// GetCertificate gives the serving certificate for each handshake.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// KubernetesURL is the API server, https://address:6443.
	KubernetesURL string
	// Image returns the manifest of the node image to install, and the URL below which its chunks
	// are. ErrNoImage when there is none yet.
	Image func() (manifest diskimage.Manifest, url string, err error)
	// SignTimeout is how long Kubernetes may take to sign a certificate. Default 30 s.
	SignTimeout time.Duration
	Now         func() time.Time
	Metrics     prometheus.Registerer
	// Events are the history of servers.
	Events event.Recorder
	Log    *slog.Logger
}

// ErrNoImage says that no node image was built yet.
var ErrNoImage = errors.New("there is no node image yet; build one: regiond image build")

// Server answers machines.
type Server struct {
	Config
	roots   *x509.CertPool
	metrics metrics
	limits  *limits
	reasons reasons
}

// New checks the configuration.
func New(c Config) (*Server, error) {
	if c.Client == nil || c.RegionName == "" || c.URL == "" || c.KubernetesURL == "" || c.Image == nil || c.Events == nil || c.Log == nil {
		return nil, errors.New("enroll server: Client, RegionName, URL, KubernetesURL, Image, Events and Log are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.SignTimeout == 0 {
		c.SignTimeout = 30 * time.Second
	}
	s := &Server{Config: c, roots: x509.NewCertPool(), limits: newLimits(c.Now)}
	if !s.roots.AppendCertsFromPEM(c.CA) {
		return nil, errors.New("enroll server: CA holds no PEM certificate")
	}
	return s, s.metrics.register(c.Metrics)
}

// Bounds of the HTTP server: every peer is a machine that nothing is known of.
const (
	maxConnections    = 1024
	headerTimeout     = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 90 * time.Second // a join waits for its signature
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	shutdownTimeout   = 5 * time.Second
	keepAliveInterval = 30 * time.Second
)

// Serve answers on the listener until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: s.Handler(),
		TLSConfig: &tls.Config{
			GetCertificate: s.GetCertificate,
			MinVersion:     tls.VersionTLS13,
			// Installers have no certificate; agents that renew theirs do.
			ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs:  s.roots,
		},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		// Requests outlive the signal to stop by the shutdown's time-out, so that none is cut in half.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.ServeTLS(netutil.LimitListener(l, maxConnections), "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("enroll server on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := srv.Shutdown(stop)
	<-failed
	return err
}

// Listen opens the listener of the API.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAliveInterval}
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("enroll server: listen on %s: %w; is another regiond running, or the address not on this host?", address, err)
	}
	return l, nil
}
