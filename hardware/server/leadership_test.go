package server_test

import (
	"log/slog"
	"testing"
	"time"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/leadership"
)

// A host that no longer leads gives no order to a BMC, however far its reconciliation has come. It
// does when it leads again.
func TestNoOrdersWithoutLeading(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	fence := leadership.NewFence(time.Now, time.Hour, slog.New(slog.DiscardHandler))
	ctx := leadership.With(t.Context(), fence)
	for range 20 {
		w.reconcile(ctx, c)
		w.now = w.now.Add(5 * time.Second)
	}
	if w.power != region.PowerOff || w.boots != 0 {
		t.Errorf("got power %s and %d boots, want no order without a term", w.power, w.boots)
	}
	fence.Renewed(time.Now())
	w.run(ctx, 80, always(c), nil, isReady)
}
