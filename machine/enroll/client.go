package enroll

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
	"time"
)

// requestTimeout of one exchange. A join waits for the certificate to be signed.
const requestTimeout = time.Minute

// maxAnswer bounds answers in bytes: an Instruction carries the manifest of an image of some thousand chunks.
const maxAnswer = 16 << 20

// Client speaks to regiond from a machine. It trusts the region's CA and nothing else.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client for the API at url (https://address:7443). The certificate is needed for
// Renew and Confirm, else nil.
func NewClient(url string, caPEM []byte, certificate *tls.Certificate) (*Client, error) {
	if !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("enroll: URL %q does not begin with https://", url)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("enroll: the CA holds no PEM certificate")
	}
	conf := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if certificate != nil {
		conf.Certificates = []tls.Certificate{*certificate}
	}
	return &Client{url: strings.TrimSuffix(url, "/"), http: &http.Client{
		Timeout: requestTimeout,
		// Never through a proxy, and no redirects: there is one peer, on the provisioning network.
		Transport:     &http.Transport{TLSClientConfig: conf, IdleConnTimeout: time.Minute, MaxIdleConns: 2},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Inventory reports what the machine is and returns what to do. token is the ticket's.
func (c *Client) Inventory(ctx context.Context, token string, r InventoryReport) (i Instruction, err error) {
	err = c.post(ctx, PathInventory, token, r, &i)
	return i, err
}

// Progress reports how far the installation got.
func (c *Client) Progress(ctx context.Context, token string, p Progress) error {
	return c.post(ctx, PathProgress, token, p, nil)
}

// Join exchanges the join token for a client certificate. If the answer is lost, it may be asked again
// with the same key.
func (c *Client) Join(ctx context.Context, token string, r JoinRequest) (j JoinResponse, err error) {
	err = c.post(ctx, PathJoin, token, r, &j)
	return j, err
}

// Renew exchanges the client certificate for a new one.
func (c *Client) Renew(ctx context.Context, r JoinRequest) (j JoinResponse, err error) {
	err = c.post(ctx, PathRenew, "", r, &j)
	return j, err
}

// Confirm says that the client certificate, which was renewed, is in use.
func (c *Client) Confirm(ctx context.Context, r ConfirmRequest) error {
	return c.post(ctx, PathConfirm, "", r, nil)
}

// Readmit exchanges the key of an expired certificate, which signs the request, for a new certificate. An operator must have
// readmitted the host. The client needs no certificate: TLS would refuse the expired one.
func (c *Client) Readmit(ctx context.Context, r JoinRequest) (j JoinResponse, err error) {
	err = c.post(ctx, PathReadmit, "", r, &j)
	return j, err
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) post(ctx context.Context, path, token string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("enroll: %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("enroll: %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("enroll: %s: %w", path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("enroll: %s: read the answer: %w", path, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("enroll: %s: the answer is larger than %d bytes", path, maxAnswer)
	case resp.StatusCode/100 != 2:
		refused := &Error{}
		if json.Unmarshal(answer, refused) != nil || refused.Reason == "" {
			refused = &Error{} // not from regiond itself
		}
		refused.Status = resp.StatusCode
		return fmt.Errorf("enroll: %s: %w", path, refused)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("enroll: %s: decode the answer: %w", path, err)
	}
	return nil
}

func (e *Error) Error() string {
	var parts []string
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	}
	if e.Reason != "" {
		parts = append(parts, e.Reason, e.Message)
	}
	return strings.Join(parts, ": ")
}

// Denied says whether the token or certificate is not, or not any longer, valid for what was asked.
func Denied(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// Unknown says whether regiond has no such path: it is of an earlier version.
func Unknown(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusNotFound && e.Reason == ""
}

// NotReadmitted says whether regiond recognised the host, and waits for an operator to readmit it.
func NotReadmitted(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Reason == ReasonNotReadmitted
}

// Refused says whether regiond understood and will say the same again, so that trying again is of no
// use before something changes. Everything else (network, regiond restarting, rate limits) passes.
func Refused(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Reason != "" && e.Reason != ReasonTooMany && e.Reason != ReasonUnavailable
}
