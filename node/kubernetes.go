package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"regiond.dev/regiond/region"
)

// apiTimeout of one request to the API server.
const apiTimeout = 10 * time.Second

// maxObject bounds an answer of the API server in bytes.
const maxObject = 4 << 20

// kubernetes is the API server as far as the agent needs it: its own Host and Lease.
type kubernetes struct {
	url, name string
	tls       *tls.Config
	now       func() time.Time

	mu     sync.Mutex
	http   *http.Client
	offset time.Duration // of the API server's clock from ours
}

// statusError is an answer other than 2xx.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("API server: %d %s", e.code, e.message) }

func newKubernetes(url, ca, name string, certificate func() *tls.Certificate, now func() time.Time) (*kubernetes, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("the identity's CA holds no PEM certificate; install the server again")
	}
	k := &kubernetes{url: strings.TrimSuffix(url, "/"), name: name, now: now, tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if c := certificate(); c != nil {
				return c, nil
			}
			return &tls.Certificate{}, nil
		}}}
	k.reconnect()
	return k, nil
}

// reconnect lets requests from now on be made by the present certificate: a connection has that of its beginning for good. One
// that is in use, by a watch say, is not used again.
func (k *kubernetes) reconnect() {
	next := &http.Client{
		Timeout:       apiTimeout,
		Transport:     &http.Transport{TLSClientConfig: k.tls, MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.http != nil {
		k.http.CloseIdleConnections()
	}
	k.http = next
}

// client of the present connections.
func (k *kubernetes) client() *http.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.http
}

// host reads this host's object.
func (k *kubernetes) host(ctx context.Context) (*region.Host, error) {
	h := &region.Host{}
	return h, k.do(ctx, http.MethodGet, k.hostPath(), nil, h)
}

// patchStatus writes this host's status.
func (k *kubernetes) patchStatus(ctx context.Context, s region.HostStatus) error {
	patch, err := statusPatch(s)
	if err != nil {
		return err
	}
	return k.do(ctx, http.MethodPatch, k.hostPath()+"/status", map[string]any{"status": patch}, nil)
}

// heartbeat renews this host's Lease. Times are the API server's: a host with a wrong clock is alive too.
func (k *kubernetes) heartbeat(ctx context.Context, duration time.Duration) error {
	const microTime = "2006-01-02T15:04:05.000000Z07:00" // metav1.MicroTime
	spec := map[string]any{
		"holderIdentity":       k.name,
		"leaseDurationSeconds": int(duration / time.Second),
		"renewTime":            k.now().Add(k.clockOffset()).UTC().Format(microTime),
	}
	return k.do(ctx, http.MethodPatch, "/apis/coordination.k8s.io/v1/namespaces/regiond-hosts/leases/"+k.name, map[string]any{"spec": spec}, nil)
}

func (k *kubernetes) hostPath() string {
	return "/apis/" + region.GroupVersion.String() + "/hosts/" + k.name
}

// clockOffset is by how much the API server's clock is ahead of ours, to the second.
func (k *kubernetes) clockOffset() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offset
}

func (k *kubernetes) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, k.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := k.client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	k.readClock(resp)
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxObject))
	if err != nil {
		return fmt.Errorf("API server: read the answer to %s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		var status struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(answer, &status) != nil || status.Message == "" {
			status.Message = http.StatusText(resp.StatusCode)
		}
		return &statusError{resp.StatusCode, status.Message}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("API server: decode the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// readClock takes the server's time from the Date header (RFC 9110 section 6.6.1), whole seconds.
func (k *kubernetes) readClock(resp *http.Response) {
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	offset := t.Sub(k.now())
	if offset > -2*time.Second && offset < 2*time.Second {
		offset = 0 // within what rounding and the way explain
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
}
