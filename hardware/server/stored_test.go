package server_test

import (
	"encoding/json"
	"testing"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// TestStatusOfEarlierVersion: statuses that were written before boots were recorded are read, and never allow more than they did.
func TestStatusOfEarlierVersion(t *testing.T) {
	for _, tt := range []struct {
		name, status string
		power        region.PowerState
		action       server.Action
		ticket       bool
	}{
		{"an installation that runs goes on", `{"netboot":{"requested":"2026-03-01T11:58:00Z","lastSeen":"2026-03-01T11:59:00Z","macAddress":"52:54:00:00:00:01","attempts":1},
			"installation":{"stage":"Writing","started":"2026-03-01T11:59:30Z","lastReport":"2026-03-01T11:59:50Z"}}`, region.PowerOn, server.None{}, false},
		{"an installer that fell silent is started again", `{"netboot":{"requested":"2026-03-01T11:50:00Z","lastSeen":"2026-03-01T11:51:00Z","attempts":1},
			"installation":{"stage":"Writing","started":"2026-03-01T11:51:30Z","lastReport":"2026-03-01T11:52:00Z"}}`, region.PowerOn, server.PowerOff{Consent: region.ConsentOwnBoot}, false},
		{"a machine whose installation was refused is left alone", `{"netboot":{"requested":"2026-03-01T11:58:00Z","lastSeen":"2026-03-01T11:59:00Z","attempts":1},
			"installation":{"stage":"Failed","started":"2026-03-01T11:59:30Z","lastReport":"2026-03-01T11:59:50Z","message":"disk sda holds LVM"}}`, region.PowerOn, server.None{}, false},
		{"a network boot that was just asked for is answered", `{"power":"On","netboot":{"requested":"2026-03-01T11:59:00Z","attempts":1}}`, region.PowerOn, server.None{}, true},
		{"a machine that came by itself is left alone", `{"power":"On","netboot":{"lastSeen":"2026-03-01T11:00:00Z","macAddress":"52:54:00:00:00:01"}}`, region.PowerOn, server.None{}, false},
		{"one that was refused when it came by itself, too", `{"power":"On","netboot":{"lastSeen":"2026-03-01T11:00:00Z"},
			"installation":{"stage":"Failed","lastReport":"2026-03-01T11:01:00Z","message":"disk sda holds LVM"}}`, region.PowerOn, server.None{}, false},
		{"one that was started a month ago and came by itself since, too", `{"power":"On","netboot":{"requested":"2026-02-01T11:00:00Z","lastSeen":"2026-03-01T11:30:00Z","attempts":3}}`,
			region.PowerOn, server.None{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, f := desired(), answered(tt.power)
			conditions, bmc := f.Status.Conditions, f.Status.BMC
			if err := json.Unmarshal([]byte(tt.status), &f.Status); err != nil {
				t.Fatal(err)
			}
			f.Status.Conditions, f.Status.BMC = conditions, bmc
			if d := server.Decide(w, f, now); d.Action != tt.action {
				t.Errorf("action %T%+v, want %T%+v", d.Action, d.Action, tt.action, tt.action)
			}
			if job := server.NeedsJob(w, f, "52:54:00:00:00:01", now); job.Needed != tt.ticket {
				t.Errorf("ticket: %+v, want %t", job, tt.ticket)
			}
		})
	}
}
