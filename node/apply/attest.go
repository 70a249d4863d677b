package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

// records are what the agent knows of this boot's processes. They are lost with /run, as the processes are.
type records struct {
	path string
	kept []byte
	log  *slog.Logger
	// Services by name.
	Services map[string]record `json:"services"`
	// Repaired says what was repaired since the configuration was applied.
	Repaired string `json:"repaired,omitempty"`
}

// record of one run of a service.
type record struct {
	Invocation string    `json:"invocation"`
	Started    time.Time `json:"started"`
	// Digest of the files that it runs with; empty when that is not known.
	Digest     string `json:"digest,omitempty"`
	UnitDigest string `json:"unitDigest,omitempty"`
}

func loadRecords(path string, log *slog.Logger) records {
	r := records{path: path, log: log, Services: map[string]record{}}
	if path == "" {
		return r
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("records of processes are not used", slog.Any("error", err))
	}
	if r.Services == nil {
		r.Services = map[string]record{}
	}
	return r
}

func (r *records) keep() {
	b, err := json.Marshal(r)
	if err == nil && bytes.Equal(b, r.kept) || r.path == "" {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.path), 0o755) // /run is empty after a boot
	}
	if err == nil {
		err = atomicfile.Write(r.path, b, 0o600)
	}
	if err != nil {
		r.log.Warn("records of processes are not kept", slog.Any("error", err))
		return
	}
	r.kept = b
}

// situation of the host with respect to a configuration.
func (a *Applier) situation(ctx context.Context, want configuration.Configuration, owned Names) (Situation, error) {
	all := namesOf(want).with(owned)
	files, err := a.disk.read(a.accounts, all.Files)
	if err != nil {
		return Situation{}, err
	}
	runs, err := a.observe(ctx, want, all.Services)
	return Situation{Files: files, Runs: runs, Owned: owned}, err
}

// observe looks at services, and finds out with which files each was started.
func (a *Applier) observe(ctx context.Context, conf configuration.Configuration, names []string) (map[string]Run, error) {
	states, err := a.Services.States(ctx, names)
	if err != nil {
		return nil, err
	}
	runs := map[string]Run{}
	for _, name := range names {
		s := states[name]
		r := a.records.Services[name]
		if s.Invocation != "" && s.Invocation != r.Invocation {
			r = record{Invocation: s.Invocation, Started: startTime(s, a.Now())}
			if w, ok := serviceOf(conf, name); ok {
				r.Digest, r.UnitDigest = a.infer(conf, w, r.Started)
			}
			a.records.Services[name] = r
		}
		run := Run{State: s}
		if s.Invocation != "" {
			run.Digest, run.UnitDigest, run.Started = r.Digest, r.UnitDigest, r.Started
		}
		runs[name] = run
	}
	a.records.keep()
	return runs, nil
}

// infer what a run that nobody recorded was started with: the files as they are, if none has changed since. The kernel keeps the
// time of the last change, and nobody can set it.
func (a *Applier) infer(conf configuration.Configuration, w configuration.Service, started time.Time) (digest, unit string) {
	if started.IsZero() || !a.disk.changedBefore(w.Files, started) {
		return "", ""
	}
	return a.onDisk(conf, w)
}

// onDisk is the digest of a service's files as they are.
func (a *Applier) onDisk(conf configuration.Configuration, w configuration.Service) (digest, unit string) {
	files, err := a.disk.read(a.accounts, w.Files)
	if err != nil || len(files) != len(w.Files) {
		return "", ""
	}
	now := configuration.Configuration{}
	for _, f := range conf.Files { // in the configuration's order, which the digest depends on
		if have, ok := files[f.Path]; ok {
			have.Mode = sameMode(f, have)
			now.Files = append(now.Files, have)
		}
	}
	return now.Digest(w), unitDigest(now, w)
}

// sameMode gives a mode that was read from disk the configuration's way of writing it, if it is the same.
func sameMode(want, have configuration.File) string {
	if modeText(want) == have.Mode {
		return want.Mode
	}
	return have.Mode
}

// started records a run that the agent itself has begun or reloaded.
func (a *Applier) started(ctx context.Context, conf configuration.Configuration, w configuration.Service) error {
	states, err := a.Services.States(ctx, []string{w.Name})
	if err != nil {
		return err
	}
	s := states[w.Name]
	if s.Invocation == "" {
		a.retry.after(w.Name, a.Now())
		return nil
	}
	r := a.records.Services[w.Name]
	if r.Invocation != s.Invocation {
		r = record{Invocation: s.Invocation, Started: startTime(s, a.Now())}
	}
	if r.Digest, r.UnitDigest = a.onDisk(conf, w); r.Digest == "" {
		a.Log.Warn("files changed while their service started", slog.String("service", w.Name))
	}
	a.records.Services[w.Name] = r
	a.records.keep()
	if !s.Runs() && s.Active != service.Activating && !w.Oneshot {
		a.retry.after(w.Name, a.Now()) // it ended at once, or a condition of its unit does not hold
	}
	return a.between("recorded " + w.Name)
}

func serviceOf(c configuration.Configuration, name string) (configuration.Service, bool) {
	for _, s := range c.Services {
		if s.Name == name {
			return s, true
		}
	}
	return configuration.Service{}, false
}

// startTime of the main process, from proc_pid_stat(5) where there is one: service managers say it in whole seconds. It errs to
// the early side by a few hundredths of a second, so that a file that changed at the same time counts as changed after it.
func startTime(s service.State, now time.Time) time.Time {
	if s.PID <= 0 {
		return s.Started
	}
	t, err := processStart(s.PID, now)
	if err != nil {
		return s.Started
	}
	return t
}

// ticks of the fields of proc(5) a second: USER_HZ, which is 100 on every architecture that Debian's kernel runs on here.
const ticks = 100

func processStart(pid int, now time.Time) (time.Time, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return time.Time{}, fmt.Errorf("/proc/%d/stat: unexpected content %q", pid, b)
	}
	start, err := strconv.ParseInt(f[19], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	first, _, _ := strings.Cut(string(up), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return time.Time{}, err
	}
	const rounding = 2 * time.Second / ticks
	age := time.Duration(seconds*float64(time.Second)) - time.Duration(start)*time.Second/ticks
	return now.Add(-age - rounding).Round(0), nil
}
