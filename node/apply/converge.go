package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"regiond.dev/regiond/machine/configuration"
)

// converge makes the host what the configuration says. A service that does not start is not its failure: look tells of it.
func (a *Applier) converge(ctx context.Context, want configuration.Configuration, owned Names) error {
	s, err := a.situation(ctx, want, owned)
	if err != nil {
		return err
	}
	if err := a.files(ctx, planFiles(want, s)); err != nil {
		return err
	}
	return a.services(ctx, want)
}

// files takes the steps up to the services of the configuration.
func (a *Applier) files(ctx context.Context, steps []Step) error {
	if err := a.stage(steps); err != nil {
		return err
	}
	for _, s := range steps {
		if s.Kind != StopService {
			continue
		}
		a.Log.Info("service is stopped: it is no longer in the configuration", slog.String("service", s.Name))
		if err := errors.Join(a.Services.Stop(ctx, s.Name), a.Services.Disable(ctx, s.Name)); err != nil {
			return fmt.Errorf("stop %s: %w", s.Name, err)
		}
		if err := a.between("stopped " + s.Name); err != nil {
			return err
		}
	}
	if err := a.place(steps); err != nil {
		return err
	}
	for _, s := range steps {
		err := error(nil)
		switch s.Kind {
		case ReloadUnits:
			err = a.Services.ReloadUnits(ctx)
		case ReloadNetwork:
			if a.ReloadNetwork != nil {
				err = a.ReloadNetwork(ctx)
			}
		default:
			continue
		}
		if err != nil {
			return err
		}
		if err := a.between(string(s.Kind)); err != nil {
			return err
		}
	}
	return nil
}

// stage writes files under other names. All are on disk before the first gets its own: a full disk changes nothing.
func (a *Applier) stage(steps []Step) error {
	var staged []string
	for _, s := range steps {
		if s.Kind != WriteFile {
			continue
		}
		if err := a.disk.stage(a.accounts, s.File); err != nil {
			a.disk.unstage(staged)
			return &stageError{err}
		}
		staged = append(staged, s.Name)
		if err := a.between("staged " + s.Name); err != nil {
			return err
		}
	}
	return nil
}

// place gives staged files their names, and removes others.
func (a *Applier) place(steps []Step) error {
	for _, s := range steps {
		switch s.Kind {
		case WriteFile:
			if err := a.disk.place(s.Name); err != nil {
				return err
			}
			a.Log.Info("file written", slog.String("file", s.Name))
		case RemoveFile:
			if err := a.disk.remove(s.Name); err != nil {
				return err
			}
			a.Log.Info("file removed: it is no longer in the configuration", slog.String("file", s.Name))
		default:
			continue
		}
		if err := a.between(string(s.Kind) + " " + s.Name); err != nil {
			return err
		}
	}
	return nil
}

// services starts and restarts, one after the other: a restart takes along what depends on the
// service, so each is looked at anew.
func (a *Applier) services(ctx context.Context, want configuration.Configuration) error {
	for _, w := range want.Services {
		runs, err := a.observe(ctx, want, []string{w.Name})
		if err != nil {
			return err
		}
		for _, s := range decide(want, w, runs[w.Name]) {
			if s.Kind != EnableService && a.retry.waits(w.Name, a.Now()) && !runs[w.Name].Runs() {
				continue
			}
			if err := a.order(ctx, want, w, s.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// order has a service do something, and records what it runs with from then on.
func (a *Applier) order(ctx context.Context, want configuration.Configuration, w configuration.Service, kind Kind) error {
	a.Log.Info("service: "+string(kind), slog.String("service", w.Name))
	do := map[Kind]func(context.Context, string) error{EnableService: a.Services.Enable, StartService: a.Services.Start,
		Restart: a.Services.Restart, Reload: a.Services.Reload}[kind]
	err := do(ctx, w.Name)
	if err != nil && kind == Reload {
		a.Log.Warn("service can't be reloaded and is restarted", slog.String("service", w.Name), slog.Any("error", err))
		kind, err = Restart, a.Services.Restart(ctx, w.Name)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cut := a.between(string(kind) + " " + w.Name); cut != nil {
		return cut
	}
	if kind == EnableService {
		return err
	}
	if err != nil {
		a.Log.Warn("service does not start", slog.String("service", w.Name), slog.Any("error", err))
		a.retry.after(w.Name, a.Now())
		return nil
	}
	a.retry.done(w.Name)
	return a.started(ctx, want, w)
}
