package apply

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/configuration"
)

// mostInterrupted is how often a host may go down while a network configuration is tried. A person who finds a host silent
// switches it off and on; more often than that is not an accident.
const mostInterrupted = 3

// back is what is put back when the network does not work: the configuration before, and what files of other origin held that
// the new configuration is about to replace.
func (a *Applier) back(before, want configuration.Configuration, s Situation) configuration.Configuration {
	back := configuration.Configuration{Files: slices.Clone(before.Files), Services: slices.Clone(before.Services)}
	for _, f := range want.Files {
		have, there := s.Files[f.Path]
		if there && have.Mode != "" && !slices.ContainsFunc(before.Files, func(b configuration.File) bool { return b.Path == f.Path }) {
			have.Network = f.Network
			back.Files = append(back.Files, have)
		}
	}
	slices.SortFunc(back.Files, func(a, b configuration.File) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return back
}

// probe waits until the API server answers over the changed network: twice, since for a moment the old one may still work.
func (a *Applier) probe(ctx context.Context) error {
	if err := a.between("probing"); err != nil {
		return err
	}
	deadline := a.Now().Add(a.Probe)
	last, answers := error(nil), 0
	for a.Now().Before(deadline) {
		if !backoff.Sleep(ctx, a.Settle) {
			return ctx.Err()
		}
		probing, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := a.Reach(probing)
		cancel()
		if err != nil {
			last, answers = err, 0
			continue
		}
		if answers++; answers == 2 {
			return nil
		}
	}
	return fmt.Errorf("the API server was not reached within %s after the network changed (%w)", a.Probe, last)
}

// rollBack puts back what was before, and remembers what was refused.
func (a *Applier) rollBack(ctx context.Context, reason string) error {
	p := a.journal.pending
	a.Log.Error("rolling back the network configuration", slog.String("digest", short(p.Digest)), slog.String("reason", reason))
	if err := a.journal.refuse(refused{Digest: p.Digest, Time: a.Now().UTC().Truncate(time.Second), Reason: reason, Final: true}); err != nil {
		return err
	}
	if err := a.between("refused"); err != nil {
		return err
	}
	return a.putBack(ctx)
}

// interrupted takes back a network configuration during whose trial the host, or the agent, went down.
func (a *Applier) interrupted(ctx context.Context) error {
	p := a.journal.pending
	r := refused{Digest: p.Digest}
	if old := a.journal.refused; old != nil && old.Digest == p.Digest {
		r = *old
	}
	if !r.Final {
		r.Interrupted++
		r.Time = a.Now().UTC().Truncate(time.Second)
		r.Reason = fmt.Sprintf("the host or its agent went down %d times before the API server was reached with it", r.Interrupted)
		r.Final = r.Interrupted >= mostInterrupted
		if err := a.journal.refuse(r); err != nil {
			return err
		}
	}
	a.Log.Warn("rolling back a network configuration that was not confirmed",
		slog.String("digest", short(p.Digest)), slog.Int("interrupted", r.Interrupted))
	return a.putBack(ctx)
}

func (a *Applier) putBack(ctx context.Context) error {
	p := a.journal.pending
	if err := a.converge(ctx, p.Back, p.Owned); err != nil {
		return fmt.Errorf("restore the previous configuration: %w", err)
	}
	if err := a.between("put back"); err != nil {
		return err
	}
	a.disk.unstage(p.Owned.Files)
	return a.journal.drop()
}
