package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/supervisor"
)

func TestSnapshotOverTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "regiond.sock")
	if _, err := daemon.Fetch(t.Context(), path); err == nil {
		t.Fatal("no error without a socket")
	}
	// The socket of a regiond that was killed is in the way.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- daemon.Serve(ctx, path, func() daemon.Snapshot {
			return daemon.Snapshot{Region: "tokyo", Components: []supervisor.Component{{Name: "etcd", PID: 7}}}
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
		t.Fatalf("%+v, %v", s, err)
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("socket mode %v, %v", i.Mode(), err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What an earlier regiond saw of a cluster is not shown as what is.
