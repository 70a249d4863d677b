package installer

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

	"regiond.dev/regiond/machine/enroll"
)

// maxAnswer bounds an answer in bytes; the biggest is the manifest of an image of some thousand chunks.
const maxAnswer = 16 << 20

// requestTimeout of one request to regiond's API.
const requestTimeout = 30 * time.Second

// client of regiond's enroll API.
type client struct {
	url, token string
	http       *http.Client
}

// newClient trusts the ticket's certificates only.
func newClient(ticket enroll.Ticket) (*client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ticket.CA)) {
		return nil, errors.New("the ticket's CA holds no PEM certificate: build the ticket again")
	}
	if !strings.HasPrefix(ticket.URL, "https://") {
		return nil, fmt.Errorf("the ticket's URL is %q, want https://", ticket.URL)
	}
	return &client{
		url: strings.TrimSuffix(ticket.URL, "/"), token: ticket.Token,
		http: &http.Client{
			Timeout:   requestTimeout,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}},
		},
	}, nil
}

// apiError is an answer other than 2xx.
type apiError struct {
	status int
	body   enroll.Error
}

func (e *apiError) Error() string {
	return fmt.Sprintf("regiond answered %d %s: %s", e.status, e.body.Reason, e.body.Message)
}

// refused says that the ticket is not (any longer) valid.
func refused(err error) bool {
	var api *apiError
	return errors.As(err, &api) && (api.status == http.StatusUnauthorized || api.status == http.StatusForbidden)
}

func (c *client) inventory(ctx context.Context, report enroll.InventoryReport) (enroll.Instruction, error) {
	var instruction enroll.Instruction
	err := c.post(ctx, enroll.PathInventory, report, &instruction)
	return instruction, err
}

func (c *client) progress(ctx context.Context, p enroll.Progress) error {
	return c.post(ctx, enroll.PathProgress, p, nil)
}

func (c *client) post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("POST %s: %w", request.URL, err)
	}
	if response.StatusCode/100 != 2 {
		e := &apiError{status: response.StatusCode}
		if json.Unmarshal(text, &e.body) != nil || e.body.Message == "" {
			e.body.Message = response.Status // not from regiond itself
		}
		return fmt.Errorf("POST %s: %w", request.URL, e)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("POST %s: the answer is not JSON of the expected form: %w", request.URL, err)
	}
	return nil
}
