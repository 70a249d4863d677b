package backoff

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestBackoffDoublesUpToMost(t *testing.T) {
	b := Backoff{First: 2 * time.Second, Most: 15 * time.Second}
	for range 2 {
		var got []time.Duration
		for range 5 {
			got = append(got, b.Next())
		}
		want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		b.Reset()
	}
}

func TestJitterStaysWithinATenth(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := Jitter(10 * time.Second)
		if d < 9*time.Second || d > 11*time.Second {
			t.Fatalf("got %s, want 9 s to 11 s", d)
		}
		seen[d] = true
	}
	if len(seen) < 100 {
		t.Errorf("got %d different values of 1000: nothing drifts apart", len(seen))
	}
	if d := Jitter(0); d != 0 {
		t.Errorf("of nothing: got %s", d)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if Sleep(ctx, time.Hour) {
		t.Error("got true of a context that had ended")
	}
	if !Sleep(t.Context(), time.Millisecond) {
		t.Error("got false of a context that goes on")
	}
}
