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
)

// Socket is where a node's process 1 takes orders. The agents of images before this program's use it by themselves.
const Socket = runDir + "/init.sock"

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

// client gives orders to a node's process 1.
type client struct{ http *http.Client }

// newClient of the process 1 that listens at a socket.
func newClient(path string) client {
	return client{&http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}}
}

// list the states of units, by name or of all that were started once.
func (c client) list(ctx context.Context, names []string) (list []State, err error) {
	b, err := c.do(ctx, http.MethodGet, "/v1/units?"+url.Values{"name": names}.Encode())
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	return list, err
}

// order starts, stops, restarts or reloads a service, and returns when it is ready or has ended.
func (c client) order(ctx context.Context, name, verb string) error {
	_, err := c.do(ctx, http.MethodPost, "/v1/units/"+url.PathEscape(name)+"/"+verb)
	return err
}

func (c client) do(ctx context.Context, method, path string) ([]byte, error) {
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
