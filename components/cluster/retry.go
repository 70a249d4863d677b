package cluster

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// retry runs f until it succeeds or the context ends, with back-off. A failure is logged when it is another than the last.
func retry(ctx context.Context, log *slog.Logger, what string, f func(context.Context) error) {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	last := ""
	for {
		err := f(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if err.Error() != last {
			last = err.Error()
			log.Error(what+" failed and is tried again until it succeeds", slog.Any("error", err))
		}
		t := time.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}
