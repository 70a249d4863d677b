package bootstrap

import (
	"slices"
	"sync"
	"time"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// state is the state for status. The run changes it, and the socket reads it.
type state struct {
	mu       sync.Mutex
	snapshot daemon.Snapshot
	source   func() []supervisor.Component
	pki      *pki.PKI
	problems func() []string
	// waiting is why a changed declaration does not take effect yet, empty if it does.
	waiting string
}

func (s *state) setWaiting(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = why
}

func (s *state) enter(text string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot.Stage, s.snapshot.StageSince = text, since.UTC()
}

func (s *state) watch(components func() []supervisor.Component) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = components
}

func (s *state) watchPKI(p *pki.PKI) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pki = p
}

func (s *state) watchProblems(problems func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = problems
}

func (s *state) setReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot.Ready = ready
}

func (s *state) components() []supervisor.Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source == nil {
		return nil
	}
	return s.source()
}

func (s *state) read() daemon.Snapshot {
	components := s.components()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.snapshot
	out.Components = components
	if s.problems != nil {
		out.Problems = slices.Clone(s.problems())
	}
	out.Waiting = s.waiting
	if s.pki != nil {
		var err error
		if out.Certificates, err = s.pki.Inventory(); err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	return out
}
