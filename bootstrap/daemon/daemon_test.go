package daemon_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/supervisor"
)

func TestSnapshotOverTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "regiond.sock")
	if _, err := daemon.Fetch(t.Context(), path); err == nil {
		t.Fatal("got no error without a socket")
	}
	// A killed regiond has left its socket behind.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var broken error
	done := make(chan error, 1)
	go func() {
		done <- daemon.Serve(ctx, path, func() daemon.Snapshot {
			return daemon.Snapshot{Region: "tokyo", Components: []supervisor.Component{{Name: "etcd", PID: 7}}}
		}, func(w io.Writer) error {
			if _, err := io.WriteString(w, strings.Repeat("journal", 10_000)); err != nil {
				return err
			}
			return broken
		})
	}()
	var s *daemon.Snapshot
	var err error
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-tick.C {
		if s, err = daemon.Fetch(t.Context(), path); err == nil {
			break
		}
	}
	if err != nil || s.Region != "tokyo" || s.Components[0].PID != 7 {
		t.Fatalf("got %+v, %v; want the snapshot that is served", s, err)
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("got the socket mode %v, %v; want 0600", i.Mode(), err)
	}
	var copied strings.Builder
	if err := daemon.CopyJournal(t.Context(), path, &copied); err != nil || copied.Len() != 70_000 {
		t.Errorf("journal: got %d bytes, %v; want 70000", copied.Len(), err)
	}
	broken = errors.New("the disk is broken")
	if err := daemon.CopyJournal(t.Context(), path, &copied); err == nil {
		t.Error("half of a journal was taken for all of it")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An earlier regiond's observations of a cluster are not shown as current.
