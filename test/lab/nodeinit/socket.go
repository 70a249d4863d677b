package nodeinit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"regiond.dev/regiond/node/service"
)

// Socket is where a node's supervisor takes orders.
const Socket = "/run/regiond/init.sock"

// maxAnswer bounds what is read from the socket in bytes.
const maxAnswer = 1 << 20

// Serve takes orders on a socket until the context ends.
func (s *Supervisor) Serve(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/units", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.States(r.URL.Query()["name"])) // the agent may have gone
	})
	for verb, order := range map[string]func(context.Context, string) error{"start": s.Start, "stop": s.Stop, "restart": s.Restart, "reload": s.Reload} {
		mux.HandleFunc("POST /v1/units/{name}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			// An order is carried out to its end, also when the one who gave it is killed.
			if err := order(context.WithoutCancel(r.Context()), r.PathValue("name")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("supervisor: %w", err)
	}
	return nil
}

// Client gives orders to a supervisor. It has the methods of service.Systemd.
type Client struct{ http *http.Client }

// NewClient of the supervisor at a socket.
func NewClient(path string) Client {
	return Client{&http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}}
}

// States of services by name. One that is not known is Missing.
func (c Client) States(ctx context.Context, names []string) (map[string]service.State, error) {
	states := map[string]service.State{}
	if len(names) == 0 {
		return states, nil
	}
	list, err := c.list(ctx, names)
	for _, s := range list {
		states[s.Name] = s
	}
	return states, err
}

// FailedUnits of the node.
func (c Client) FailedUnits(ctx context.Context) ([]string, error) {
	list, err := c.list(ctx, nil)
	var failed []string
	for _, s := range list {
		if s.Active == service.Failed || s.Sub == "auto-restart" {
			failed = append(failed, s.Name)
		}
	}
	return failed, err
}

func (c Client) list(ctx context.Context, names []string) (list []service.State, err error) {
	b, err := c.do(ctx, http.MethodGet, "/v1/units?"+url.Values{"name": names}.Encode())
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	return list, err
}

// Start starts a service and returns when it is ready.
func (c Client) Start(ctx context.Context, name string) error { return c.order(ctx, name, "start") }

// Stop stops a service.
func (c Client) Stop(ctx context.Context, name string) error { return c.order(ctx, name, "stop") }

// Restart restarts a service, or starts it.
func (c Client) Restart(ctx context.Context, name string) error { return c.order(ctx, name, "restart") }

// Reload has a service read its files again.
func (c Client) Reload(ctx context.Context, name string) error { return c.order(ctx, name, "reload") }

// Enable does nothing: the agent starts what a node is to run, each time the node starts.
func (c Client) Enable(context.Context, string) error { return nil }

// Disable does nothing, see Enable.
func (c Client) Disable(context.Context, string) error { return nil }

// ReloadUnits does nothing: unit files are read at each start.
func (c Client) ReloadUnits(context.Context) error { return nil }

func (c Client) order(ctx context.Context, name, verb string) error {
	_, err := c.do(ctx, http.MethodPost, "/v1/units/"+url.PathEscape(name)+"/"+verb)
	return err
}

func (c Client) do(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode/100 != 2 {
		err = errors.New(strings.TrimSpace(string(bytes.TrimSpace(b))))
	}
	return b, err
}
