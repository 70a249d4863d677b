package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// TestHistory: the Events of a server tell its installation and its retirement, each act and each change once.
func TestHistory(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	installed := w.events.Lines("")
	s := w.server(ctx)
	before := s.DeepCopy()
	s.Spec.Retired = true
	if err := w.api.Patch(ctx, s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.run(ctx, 60, always(c), nil, func(s *region.Server) bool { return s.Status.Phase == region.PhaseRetired })
	all := w.events.Lines("")
	for name, tt := range map[string]struct {
		got  []string
		want []string
	}{
		"installation": {installed, []string{
			"s1: Normal Answered: BMCReachable is True: ", "s1: Normal Netboot: ordered at the BMC 10.98.0.11:623", "s1: Normal InstallationWriting: disk D1 is being overwritten",
			"s1: Normal Inspected: ", "s1: Normal InstallationInstalled: ", "s1: Normal Installed: Installed is True: ", "s1: Normal HostHealthy: Ready is True: "}},
		"retirement": {all[len(installed):], []string{"s1: Warning Retiring: Ready is False: ", "s1: Normal ShutDown: ordered at the BMC 10.98.0.11:623, by consent: Retired",
			"s1: Normal Retired: Ready is False: "}},
	} {
		for _, want := range tt.want {
			n := 0
			for _, l := range tt.got {
				if strings.HasPrefix(l, want) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s: got %d Events %q, want 1; all of them:\n%s", name, n, want, strings.Join(tt.got, "\n"))
			}
		}
	}
	// Nothing happens to a retired server, and so nothing is told.
	end := w.now.Add(time.Hour)
	w.run(ctx, 1000, always(c), nil, func(*region.Server) bool { return w.now.After(end) })
	if later := w.events.Lines(""); !slices.Equal(later, all) {
		t.Errorf("Events of an hour in which nothing happened:\n%s", strings.Join(later[len(all):], "\n"))
	}
}
