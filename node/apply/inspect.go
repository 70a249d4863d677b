package apply

import (
	"context"
	"time"

	"regiond.dev/regiond/node/account"
)

// Inspection of a host, for people on it.
type Inspection struct {
	// Applied configuration, and since when; empty when there is none.
	Applied string    `json:"applied,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Pending is one that is being applied now, or was when the agent ended.
	Pending string `json:"pending,omitempty"`
	// Refused is one that cut the host off and was rolled back.
	Refused       string `json:"refused,omitempty"`
	RefusedReason string `json:"refusedReason,omitempty"`
	// Drift is what is not as it should be at this moment.
	Drift     []string           `json:"drift,omitempty"`
	Processes []InspectedProcess `json:"processes"`
}

// InspectedProcess of a service.
type InspectedProcess struct {
	Service string    `json:"service"`
	State   string    `json:"state"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Digest of the files that it runs with, empty if not known, and of those that it should.
	Digest       string `json:"digest,omitempty"`
	WantedDigest string `json:"wantedDigest"`
	Restarts     int    `json:"restarts,omitempty"`
	Message      string `json:"message,omitempty"`
}

// Inspect looks without touching anything.
func (a *Applier) Inspect(ctx context.Context) (Inspection, error) {
	a.records.path = "" // they are the agent's
	i := Inspection{Processes: []InspectedProcess{}}
	if p := a.journal.pending; p != nil {
		i.Pending = p.Digest
	}
	if r := a.journal.refused; r != nil && r.Final {
		i.Refused, i.RefusedReason = r.Digest, r.Reason
	}
	if a.journal.applied == nil {
		return i, nil
	}
	i.Applied, i.Since = a.journal.applied.Digest, a.journal.applied.Time
	want := a.journal.applied.Configuration
	var err error
	if a.accounts, err = account.Read(a.Root); err != nil {
		return i, err
	}
	s, err := a.situation(ctx, want, Names{})
	if err != nil {
		return i, err
	}
	i.Drift = driftOf(want, s, func(string) bool { return false })
	for _, w := range want.Services {
		r := s.Runs[w.Name]
		i.Processes = append(i.Processes, InspectedProcess{Service: w.Name, State: r.Active, PID: r.PID, Started: r.Started, Digest: r.Digest,
			WantedDigest: want.Digest(w), Restarts: r.Restarts, Message: r.Message})
	}
	return i, nil
}
