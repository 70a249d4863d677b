package server_test

import (
	"testing"
	"time"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// The end of a reinstallation may not be heard. The new system's host, which has not spoken yet, is not the old one's.
func TestHostOfTheOldSystemIsRemoved(t *testing.T) {
	for _, tt := range []struct {
		name    string
		created time.Duration // before the acceptance
		removed bool
	}{
		{"older than the acceptance", time.Hour, true},
		{"of the same second", 0, true},
		{"younger", -time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, f := desired(), answered(region.PowerOn)
			accepted(0)(&w, &f)
			f.Host, f.Heartbeat = host("True"), time.Time{}
			f.Host.Status = region.HostStatus{}
			f.Host.CreationTimestamp.Time = w.Reinstallation.Accepted.Add(-tt.created)
			if d := server.Decide(w, f, now); d.Reinstalling != tt.removed || d.Installed {
				t.Errorf("the host is removed: %t, want %t; installed %t", d.Reinstalling, tt.removed, d.Installed)
			}
		})
	}
}
