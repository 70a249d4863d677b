// Package daemon lets other processes query the running regiond for its components, stages and
// certificates, over a socket that only root can open. It works even when the Kubernetes API does
// not.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// Snapshot is the state of a running regiond.
type Snapshot struct {
	Version string `json:"version"`
	Region  string `json:"region"`
	// RegionFile is where its declaration was read from.
	RegionFile string `json:"regionFile,omitempty"`
	PID        int    `json:"pid"`
	// Started is when this regiond was started.
	Started time.Time `json:"started"`
	// Ready: the control plane and the controllers are running.
	Ready bool `json:"ready"`
	// Stage of the bootstrap that is running or ran last, and when it began.
	Stage      string    `json:"stage"`
	StageSince time.Time `json:"stageSince"`
	// Components of the control plane in the order in which they start.
	Components []supervisor.Component `json:"components,omitempty"`
	// Certificates of the control plane.
	Certificates []pki.Certificate `json:"certificates,omitempty"`
	// Problems that regiond keeps retrying.
	Problems []string `json:"problems,omitempty"`
	// Waiting is why regiond does not restart for a changed declaration yet. Empty if it need not.
	Waiting string `json:"waiting,omitempty"`
}

// SocketPath returns the path of the socket in a data directory.
func SocketPath(dataDir string) string { return datadir.Run.In(dataDir, "regiond.sock") }

const (
	snapshotPath = "/v1/snapshot"
	journalPath  = "/v1/journal"
)

// Serve answers with snapshots, and copies of the journal, on a Unix socket (mode 0600) until the
// context ends. The caller holds the data directory's lock, so a socket that exists is a dead one.
func Serve(ctx context.Context, path string, snapshot func() Snapshot, journal func(io.Writer) error) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("status socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+snapshotPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(snapshot()) // the caller went away
	})
	mux.HandleFunc("GET "+journalPath, func(w http.ResponseWriter, _ *http.Request) {
		if err := journal(w); err != nil {
			panic(http.ErrAbortHandler) // what was sent must not be taken for all of it
		}
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() }) // it only closes the listener
	defer stopped()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("status socket: %w", err)
	}
	return nil
}

// Fetch gets the snapshot of the regiond behind a socket.
func Fetch(ctx context.Context, path string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := get(ctx, path, snapshotPath)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var s Snapshot
	if err := json.NewDecoder(body).Decode(&s); err != nil {
		return nil, fmt.Errorf("status socket %s: %w", path, err)
	}
	return &s, nil
}

// CopyJournal writes a copy of the journal of the regiond of a socket, which holds it open. The copy
// is of one moment.
func CopyJournal(ctx context.Context, path string, w io.Writer) error {
	body, err := get(ctx, path, journalPath)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("copy the journal through %s: %w", path, err)
	}
	return nil
}

// get answers by the regiond of a socket.
func get(ctx context.Context, path, from string) (io.ReadCloser, error) {
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://regiond"+from, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("status socket %s: %s", path, resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}
