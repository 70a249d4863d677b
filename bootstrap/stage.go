package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// slow is the interval at which the progress of a running stage is reported, and what it is waiting
// for.
const slow = 10 * time.Second

// stage is one stage of the bootstrap.
type stage struct {
	// name is stable, for the journal.
	name string
	// doing and done are shown to people while it runs and after it has ended.
	doing, done string
	// detail of what it is about to change, for the journal.
	detail string
}

// stage runs one stage: it records the intent in the journal, has the effect, and records the
// result.
func (r *run) stage(ctx context.Context, s stage, effect func(context.Context) error) error {
	if err := r.journal.Begin(s.name, s.detail); err != nil {
		return err
	}
	begun := now()
	r.state.enter(s.doing, begun)
	r.log.Info("stage begins", slog.String("stage", s.name), slog.String("detail", s.detail))
	told := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(told)
		r.reportSlow(ctx, s.doing, begun)
	}()
	err := effect(ctx)
	cancel()
	<-told
	if err != nil {
		err = fmt.Errorf("%s: %w", s.doing, err)
		r.log.Error("stage failed", slog.String("stage", s.name), slog.Any("error", err))
		return errors.Join(err, r.journal.End(s.name, err))
	}
	r.log.Info("stage ends", slog.String("stage", s.name), slog.Duration("took", now().Sub(begun)))
	r.progress(s.done)
	return r.journal.End(s.name, nil)
}

// reportSlow reports at intervals that a stage is still running.
func (r *run) reportSlow(ctx context.Context, text string, begun time.Time) {
	t := time.NewTicker(slow)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			r.progress(fmt.Sprintf("still %s, for %s%s", text, now().Sub(begun).Round(time.Second), r.unready()))
		}
	}
}

// unready names the components that are not ready and why.
func (r *run) unready() string {
	var b strings.Builder
	for _, c := range r.state.components() {
		if c.Ready {
			continue
		}
		fmt.Fprintf(&b, "; %s: %s", c.Name, cmp.Or(c.Waiting, c.Problem, c.LastExit, "starting"))
	}
	return b.String()
}

func (r *run) progress(text string) {
	if r.config.Progress != nil {
		r.config.Progress(text)
	}
}

// reportInterrupted reports stages that an earlier run began but did not end.
func (r *run) reportInterrupted() error {
	steps, err := r.journal.Steps()
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.Interrupted() && s.Name != stageControllers.name {
			r.progress(fmt.Sprintf("an earlier start was interrupted at %s while %q; continuing", s.Begun.Format(time.RFC3339), s.Name))
		}
	}
	return nil
}
