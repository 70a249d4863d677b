package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		begin, calls := time.Now(), 0
		retry(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "a call", func(context.Context) error {
			if calls++; calls < 20 {
				return errors.New("refused")
			}
			return nil
		})
		if calls != 20 || time.Since(begin) > 20*40*time.Second || strings.Count(log.String(), "refused") != 1 {
			t.Errorf("%d calls in %s; log:\n%s", calls, time.Since(begin), log.String())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		retry(ctx, slog.New(slog.DiscardHandler), "a call", func(context.Context) error { return errors.New("refused") })
		if ctx.Err() == nil {
			t.Error("it ended before its context")
		}
	})
}

// A second attempt of Run finds the metrics of the first.
func TestMetricsAreRegisteredAgain(t *testing.T) {
	r := prometheus.NewRegistry()
	for range 2 {
		if err := (&metrics{}).register(r); err != nil {
			t.Fatal(err)
		}
	}
}
