// Package nodeinit is the service manager of a node that is a namespace: process 1 there, in the
// place of systemd. It reads the same unit files (package unit), starts what it is told to, keeps
// it running and reaps what nobody waits for. The agent is one of its services, and orders by a
// socket: it may be killed and started again without a service noticing.
package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/test/lab/nodeinit/unit"
)

// unitDirs are where unit files are looked for, first match first (systemd.unit(5), UNIT FILE LOAD PATH).
var unitDirs = []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}

// Config of a supervisor.
type Config struct {
	// Root of the file system that units are read from and their directories made in, / but in tests.
	Root string
	// RunDir holds the sockets by which services say that they are ready.
	RunDir string
	// LogDir holds the logs of services.
	LogDir string
	Log    *slog.Logger
}

// Supervisor of services.
type Supervisor struct {
	config Config
	reaper *reaper
	life   context.Context // of the services
	end    context.CancelFunc
	reaped sync.WaitGroup

	// starting is held while a process is started with a umask and limits of its own.
	starting sync.Mutex

	mu       sync.Mutex
	services map[string]*supervised
	order    []string // of the first starts
}

// New begins to reap.
func New(c Config) (*Supervisor, error) {
	if c.Root == "" || c.RunDir == "" || c.LogDir == "" || c.Log == nil {
		return nil, errors.New("supervisor: Root, RunDir, LogDir and Log are needed")
	}
	s := &Supervisor{config: c, reaper: newReaper(), services: map[string]*supervised{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.reaped.Go(func() { s.reaper.run(s.life) })
	return s, nil
}

// Close stops all services, the last started first.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	order := slices.Clone(s.order)
	s.mu.Unlock()
	slices.Reverse(order)
	var errs []error
	for _, name := range order {
		errs = append(errs, s.service(name).stop(ctx, true))
	}
	s.end()
	s.reaped.Wait()
	return errors.Join(errs...)
}

// service of a name, known or not.
func (s *Supervisor) service(name string) *supervised {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.services[name]
	if v == nil {
		v = &supervised{name: name, s: s, log: s.config.Log.With(slog.String("unit", name)), output: newLogFile(s.config.LogDir, name),
			state: inactive(name)}
		s.services[name] = v
	}
	return v
}

func inactive(name string) State {
	return State{State: service.State{Name: name, Active: service.Inactive, Sub: "dead", Enabled: true}, Result: resultSuccess}
}

// load reads a unit with its drop-ins.
func (s *Supervisor) load(name string) (*unit.Unit, error) {
	if filepath.Base(name) != name || !strings.HasSuffix(name, ".service") && !strings.HasSuffix(name, ".target") {
		return nil, fmt.Errorf("unit %s: only services and targets are supported here", name)
	}
	files := []string{name}
	if prefix, _, ok := strings.Cut(name, "@"); ok {
		files = append(files, prefix+"@"+filepath.Ext(name))
	}
	var sources []unit.Source
	for _, f := range files {
		for _, dir := range unitDirs {
			if len(sources) > 0 {
				break
			}
			path := filepath.Join(s.config.Root, dir, f)
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("unit %s: %w", name, err)
			}
			if target, err := os.Readlink(path); err == nil && target == os.DevNull {
				return nil, fmt.Errorf("unit %s is masked by %s", name, path)
			}
			sources = append(sources, unit.Source{Name: path, Content: string(b)})
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("unit %s: %w in any of /%s", name, fs.ErrNotExist, strings.Join(unitDirs, ", /"))
	}
	dropIns, err := s.dropIns(files)
	if err != nil {
		return nil, err
	}
	u, err := unit.Parse(name, append(sources, dropIns...)...)
	if err == nil && len(u.Unknown) > 0 {
		s.config.Log.Info("these settings of a unit have no effect here", slog.String("unit", name), slog.Any("settings", u.Unknown))
	}
	return u, err
}

// dropIns of a unit, by their names; one in an earlier folder hides one of the same name in a later.
func (s *Supervisor) dropIns(files []string) ([]unit.Source, error) {
	found := map[string]string{}
	for _, dir := range unitDirs {
		for _, f := range files {
			paths, err := filepath.Glob(filepath.Join(s.config.Root, dir, f+".d", "*.conf"))
			if err != nil {
				return nil, err
			}
			for _, p := range paths {
				if _, hidden := found[filepath.Base(p)]; !hidden {
					found[filepath.Base(p)] = p
				}
			}
		}
	}
	var names []string
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	var sources []unit.Source
	for _, n := range names {
		b, err := os.ReadFile(found[n])
		if err != nil {
			return nil, err
		}
		sources = append(sources, unit.Source{Name: found[n], Content: string(b)})
	}
	return sources, nil
}

// ours says whether a unit is one that regiond's configuration has brought: only these are started
// because another needs them. The distribution's units often want what a namespace can't have.
func (s *Supervisor) ours(name string) bool {
	_, err := os.Stat(filepath.Join(s.config.Root, unitDirs[0], name))
	return err == nil
}

// States of the named services, or of all that are known.
func (s *Supervisor) States(names []string) []State {
	if len(names) == 0 {
		s.mu.Lock()
		names = slices.Clone(s.order)
		s.mu.Unlock()
	}
	var states []State
	for _, n := range names {
		s.mu.Lock()
		v := s.services[n]
		state := inactive(n)
		if v != nil {
			state = v.state
		}
		s.mu.Unlock()
		if v == nil {
			if _, err := s.load(n); err != nil {
				state.Missing, state.Message = errors.Is(err, fs.ErrNotExist), err.Error()
			}
		}
		states = append(states, state)
	}
	return states
}

// Start starts a service and what it needs, and returns when it is ready.
func (s *Supervisor) Start(ctx context.Context, name string) error {
	return s.start(ctx, name, map[string]bool{})
}

func (s *Supervisor) start(ctx context.Context, name string, seen map[string]bool) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	u, err := s.load(name)
	if err != nil {
		return err
	}
	for i, needed := range append(slices.Clone(u.Requires), u.Wants...) {
		if !s.ours(needed) {
			continue
		}
		if err := s.start(ctx, needed, seen); err != nil {
			if i < len(u.Requires) {
				return fmt.Errorf("unit %s needs %s: %w", name, needed, err)
			}
			s.config.Log.Warn("a wanted unit does not start", slog.String("unit", name), slog.String("wanted", needed), slog.Any("error", err))
		}
	}
	return s.service(name).start(ctx, u)
}

// Stop stops a service and those that are part of it or can't be without it.
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	errs := []error{}
	for _, d := range s.dependents(name) {
		errs = append(errs, s.service(d).stop(ctx, false))
	}
	return errors.Join(append(errs, s.service(name).stop(ctx, false))...)
}

// Restart stops a service, and starts it and what was stopped with it.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	dependents := s.dependents(name)
	if err := s.Stop(ctx, name); err != nil {
		return err
	}
	err := s.Start(ctx, name)
	slices.Reverse(dependents)
	for _, d := range dependents {
		err = errors.Join(err, s.Start(ctx, d))
	}
	return err
}

// Reload has a service read its files again.
func (s *Supervisor) Reload(ctx context.Context, name string) error {
	return s.service(name).reload(ctx)
}

// dependents are the running services that stop with another, the last started first.
func (s *Supervisor) dependents(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for again := true; again; {
		again = false
		for _, n := range s.order {
			v := s.services[n]
			if n == name || v.unit == nil || v.state.Active == service.Inactive || v.state.Active == service.Failed || slices.Contains(found, n) {
				continue
			}
			for _, on := range slices.Concat(v.unit.PartOf, v.unit.Requires) {
				if on == name || slices.Contains(found, on) {
					found, again = append(found, n), true
					break
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return slices.Index(s.order, b) - slices.Index(s.order, a) })
	return found
}
