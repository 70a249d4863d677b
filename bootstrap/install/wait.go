package install

import (
	"context"
	"fmt"
	"time"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/systemd"
)

// NotReadyError is that the control plane was not ready in time. It is still being started.
type NotReadyError struct {
	// Stage of the bootstrap that ran last.
	Stage string
	cause error
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("the control plane is not ready (%s): %v; it is still being started, watch it with: regiond status --watch", e.Stage, e.cause)
}

func (e *NotReadyError) Unwrap() error { return e.cause }

// WaitReady shows the stages of the service until the control plane of a data directory is ready.
// before is the run of the service that may be stopping still, or that failed before. The error is
// a NotReadyError when ctx ends first.
func WaitReady(ctx context.Context, dataDir, before string, systemctl systemd.Systemctl, show func(string)) error {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	last := ""
	for {
		state, err := systemd.Show(ctx, systemctl)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if state.Ended(before) {
			return fmt.Errorf("%s ended before it was ready; why: journalctl -u regiond -n 50", systemd.UnitName)
		}
		s, err := daemon.Fetch(ctx, daemon.SocketPath(dataDir))
		if err == nil && state.Active == "active" && s.Ready {
			show(fmt.Sprintf("region %s is up; `regiond status` shows it", s.Region))
			return nil
		}
		if err == nil && s.Stage != last {
			last = s.Stage
			show(s.Stage)
		}
		select {
		case <-ctx.Done():
			return &NotReadyError{Stage: last, cause: context.Cause(ctx)}
		case <-t.C:
		}
	}
}
