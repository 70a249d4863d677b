package install_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/install"
)

// serve plays the running service of a data directory.
func serve(t *testing.T, dir string, snapshot func() daemon.Snapshot) {
	t.Helper()
	if err := datadir.Run.Make(dir); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Serve(ctx, daemon.SocketPath(dir), snapshot, func(io.Writer) error { return nil })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func systemctl(state string) func(context.Context, ...string) (string, error) {
	return func(context.Context, ...string) (string, error) { return state, nil }
}

func TestWaitReadyShowsStagesUntilItIs(t *testing.T) {
	dir := t.TempDir()
	var asked atomic.Int64
	serve(t, dir, func() daemon.Snapshot {
		if asked.Add(1) < 3 {
			return daemon.Snapshot{Region: "tokyo", Stage: "starting the control plane"}
		}
		return daemon.Snapshot{Region: "tokyo", Stage: "running", Ready: true}
	})
	var shown []string
	err := install.WaitReady(t.Context(), dir, "", systemctl("ActiveState=active\nSubState=running\nInvocationID=1\n"), func(text string) { shown = append(shown, text) })
	if want := []string{"starting the control plane", "region tokyo is up; `regiond status` shows it"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("got %q and %v, want %q", shown, err, want)
	}
}

// The run before this installation may still be stopping; one that ended after it has failed.
func TestWaitReadyOfAServiceThatEnds(t *testing.T) {
	err := install.WaitReady(t.Context(), t.TempDir(), "1", systemctl("ActiveState=failed\nSubState=failed\nInvocationID=2\n"), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "regiond.service ended before it was ready") {
		t.Errorf("got %v, want that the service ended", err)
	}
}

func TestWaitReadyInVain(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	serve(t, dir, func() daemon.Snapshot { return daemon.Snapshot{Stage: "waiting for the node"} })
	err := install.WaitReady(ctx, dir, "1", systemctl("ActiveState=failed\nSubState=failed\nInvocationID=1\n"), func(string) { cancel() })
	var late *install.NotReadyError
	if !errors.As(err, &late) || late.Stage != "waiting for the node" || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "(waiting for the node)") {
		t.Errorf("got %v, want a NotReadyError with the stage that ran last", err)
	}
}
