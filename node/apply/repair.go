package apply

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/condition"
)

// Back-off of what fails: a service that does not start, a file that can't be written.
const (
	firstRetry = 10 * time.Second
	mostRetry  = 5 * time.Minute
)

// retries are when what failed may be tried again.
type retries map[string]struct {
	at time.Time
	backoff.Backoff
}

func (r retries) after(what string, now time.Time) time.Time {
	e := r[what]
	e.First, e.Most = firstRetry, mostRetry
	e.at = now.Add(e.Next())
	r[what] = e
	return e.at
}

func (r retries) waits(what string, now time.Time) bool { return now.Before(r[what].at) }

func (r retries) done(what string) { delete(r, what) }

// Report of the host.
type Report struct {
	// Digest of the configuration that was applied completely: its files are there, its services were told. Empty: none was.
	Digest  string
	Applied time.Time
	// Processes in the services' order.
	Processes []Process
	// Configured, with the reason and the message of the condition.
	Configured      bool
	Reason, Message string
}

// Process of a service.
type Process struct {
	Run
	Image, Kernel string
}

// look sees to what the host holds to: it repairs what others have changed, starts what is not running, and reports.
func (a *Applier) look(ctx context.Context) error {
	if a.journal.applied == nil || a.journal.pending != nil {
		return a.report(ctx)
	}
	want := a.journal.applied.Configuration
	s, err := a.situation(ctx, want, Names{})
	if err != nil {
		return err
	}
	if drift := driftOf(want, s, func(name string) bool { return a.retry.waits(name, a.Now()) }); len(drift) > 0 {
		what := condition.List(drift, ", ")
		a.Log.Warn("something else has changed this host", slog.String("what", what))
		a.say(ctx, region.ReasonDrifted, what+"; the agent repairs it")
		if err := a.converge(ctx, want, Names{}); err != nil {
			return err
		}
		a.records.Repaired = fmt.Sprintf("repaired at %s: %s", a.Now().UTC().Format(time.RFC3339), what)
		a.records.keep()
	} else if len(Plan(want, s)) > 0 {
		if err := a.converge(ctx, want, Names{}); err != nil {
			return err
		}
	}
	return a.report(ctx)
}

// driftOf is what differs from the configuration by someone else's doing, in words. A service that failed has not
// drifted: nobody wanted that. Nor has one that was tried and waits.
func driftOf(want configuration.Configuration, s Situation, waits func(name string) bool) []string {
	var drift []string
	for _, f := range want.Files {
		have, there := s.Files[f.Path]
		f = plain(f)
		switch {
		case !there:
			drift = append(drift, f.Path+" was removed")
		case have.Mode == "":
			drift = append(drift, f.Path+" is no longer a regular file")
		case have.Content != f.Content:
			drift = append(drift, f.Path+" was changed")
		case have != f:
			drift = append(drift, fmt.Sprintf("%s was given mode %s, owner %s, group %s", f.Path, have.Mode, have.Owner, have.Group))
		}
	}
	for _, w := range want.Services {
		run := s.Runs[w.Name]
		if run.Missing || waits(w.Name) {
			continue
		}
		if !run.Enabled {
			drift = append(drift, w.Name+" was disabled")
		}
		if run.Active == service.Inactive && run.Invocation != "" && !(w.Oneshot && run.Digest == want.Digest(w)) {
			drift = append(drift, w.Name+" was stopped")
		}
	}
	return drift
}

// say reports what happens while it happens.
func (a *Applier) say(ctx context.Context, reason, message string) {
	r, err := a.build(ctx)
	if err != nil {
		return // it is said again at the end of the step
	}
	r.Configured, r.Reason, r.Message = false, reason, message
	a.tell(r)
}

func (a *Applier) report(ctx context.Context) error {
	r, err := a.build(ctx)
	if err != nil {
		return err
	}
	if a.journal.applied != nil || a.problem != nil {
		a.judge(&r)
	}
	a.tell(r)
	return nil
}

func (a *Applier) tell(r Report) {
	if a.Report != nil && !reflect.DeepEqual(r, a.last) {
		a.last = r
		a.Report(r)
	}
}

func (a *Applier) build(ctx context.Context) (Report, error) {
	r := Report{}
	if a.journal.applied == nil {
		return r, nil
	}
	conf := a.journal.applied.Configuration
	r.Digest, r.Applied = a.journal.applied.Digest, a.journal.applied.Time
	runs, err := a.observe(ctx, conf, namesOf(conf).Services)
	if err != nil {
		return r, err
	}
	for _, w := range conf.Services {
		run := runs[w.Name]
		run.Name = w.Name
		p := Process{Run: run}
		if run.Invocation != "" {
			p.Image, p.Kernel = a.Image, a.Kernel
		}
		r.Processes = append(r.Processes, p)
	}
	return r, nil
}

// judge gives the report its condition.
func (a *Applier) judge(r *Report) {
	if a.problem != nil {
		r.Configured, r.Reason, r.Message = false, a.problem.reason, a.problem.message
		return
	}
	conf := a.journal.applied.Configuration
	var broken []string
	starting := true
	for i, w := range conf.Services {
		p := r.Processes[i]
		starting = starting && (p.Runs() || p.Active == service.Activating && p.Sub != "auto-restart")
		switch {
		case p.Runs() && p.Digest == conf.Digest(w):
		case w.Oneshot && p.Active == service.Inactive && p.Digest == conf.Digest(w):
		case p.Missing:
			broken = append(broken, w.Name+" has no unit file")
		case p.Runs():
			broken = append(broken, w.Name+" runs with other files")
		case p.Message != "":
			broken = append(broken, fmt.Sprintf("%s is %s: %s", w.Name, p.Active, p.Message))
		default:
			broken = append(broken, fmt.Sprintf("%s is %s", w.Name, p.Active))
		}
	}
	if len(broken) > 0 && starting {
		r.Configured, r.Reason, r.Message = false, region.ReasonServicesStarting, condition.List(broken, "; ")
		return
	}
	if len(broken) > 0 {
		r.Configured, r.Reason, r.Message = false, region.ReasonServiceFailed, condition.List(broken, "; ")
		return
	}
	r.Configured, r.Reason = true, region.ReasonConfigurationApplied
	r.Message = fmt.Sprintf("configuration %s applied at %s", short(r.Digest), r.Applied.UTC().Format(time.RFC3339))
	if a.records.Repaired != "" {
		r.Message += "; " + a.records.Repaired
	}
}

// folders that hold files of the configuration, for whoever watches them.
func (a *Applier) folders() []string {
	var found []string
	for _, f := range a.target().Files {
		dir := a.disk.path(f.Path)
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
		if !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	return found
}
