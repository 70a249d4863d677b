package nodeinit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/test/lab/nodeinit/unit"
)

// Restarts. A service that ends again and again is started less and less often, but for ever: what it needs may come back.
const (
	mostBackOff = 30 * time.Second
	stableRun   = time.Minute // after which an end counts as the first one
)

// supervised is one unit that is run.
type supervised struct {
	name   string
	s      *Supervisor
	log    *slog.Logger
	output *logFile

	// work is held by whoever starts, stops or restarts the service.
	work sync.Mutex

	// Guarded by s.mu:
	state  State
	unit   *unit.Unit
	life   context.Context // ends when the service is stopped
	cancel context.CancelFunc
	run    *running
}

// running is one run of a service.
type running struct {
	unit *unit.Unit
	who  who
	env  []string
	// main process, nil for a oneshot that has done its work.
	main  *child
	began time.Time
}

func (v *supervised) set(f func(*State)) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	f(&v.state)
}

func (v *supervised) get() (State, *running) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return v.state, v.run
}

// start starts the service unless it runs, and returns when it is ready.
func (v *supervised) start(ctx context.Context, u *unit.Unit) error {
	v.work.Lock()
	defer v.work.Unlock()
	if state, _ := v.get(); state.Runs() {
		return nil
	}
	v.s.mu.Lock()
	if v.cancel != nil {
		v.cancel() // a restart that is waiting for its time
	}
	v.unit = u
	life, cancel := context.WithCancel(v.s.life)
	v.life, v.cancel = life, cancel
	if !slices.Contains(v.s.order, v.name) {
		v.s.order = append(v.s.order, v.name)
	}
	v.state.Restarts = 0
	v.s.mu.Unlock()
	if failed := v.condition(u); failed != "" {
		v.set(func(s *State) {
			s.Active, s.Sub, s.Message = service.Inactive, "dead", "condition not met: "+failed
		})
		return nil
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(life, end)()
	r, err := v.launch(ctx, u)
	if err != nil || r.main != nil {
		go v.keep(life, r, err)
	}
	return err
}

func (v *supervised) condition(u *unit.Unit) string {
	for _, c := range u.Conditions {
		path, not := strings.CutPrefix(c, "!")
		if _, err := os.Stat(filepath.Join(v.s.config.Root, path)); (err == nil) == not {
			return "ConditionPathExists=" + c
		}
	}
	return ""
}

// launch starts one run of the service. The caller holds work.
func (v *supervised) launch(ctx context.Context, u *unit.Unit) (_ *running, err error) {
	invocation := rand.Text()
	v.output.forget()
	v.set(func(s *State) {
		s.Active, s.Sub, s.Message, s.Invocation, s.PID = service.Activating, "start", "", invocation, 0
		s.Result, s.Code, s.ExitStatus = resultSuccess, 0, 0
		s.Missing = false
	})
	r := &running{unit: u, began: time.Now()}
	defer func() {
		if err == nil {
			return
		}
		if r.main != nil {
			v.end(r, r.main, syscall.SIGKILL)
		} else if u.KillMode != unit.KillProcess {
			killAll(v.name, 0)
		}
		v.failed(fmt.Errorf("does not start: %w", err))
		err = fmt.Errorf("unit %s: %w", v.name, err)
	}()
	if strings.HasSuffix(v.name, ".target") {
		v.ready(r)
		return r, nil
	}
	if r.who, err = identityOf(u, v.s.config.Root); err != nil {
		return r, err
	}
	if r.env, err = v.environment(u, r.who, invocation); err != nil {
		return r, err
	}
	if err = v.directories(u, r.who); err != nil {
		return r, err
	}
	ctx, cancel := withTimeout(ctx, u.TimeoutStart)
	defer cancel()
	for _, c := range u.StartPre {
		if err = v.command(ctx, r, c); err != nil {
			return r, err
		}
	}
	r.began = time.Now()
	v.set(func(s *State) { s.Started = r.began })
	if u.Type == unit.TypeOneshot {
		for _, c := range u.Start {
			if err = v.command(ctx, r, c); err != nil {
				return r, err
			}
		}
	} else if err = v.main(ctx, r); err != nil {
		return r, err
	}
	for _, c := range u.StartPost {
		if err = v.command(ctx, r, c, r.mainPID()...); err != nil {
			return r, err
		}
	}
	v.ready(r)
	return r, nil
}

// main starts the main process and waits until it is ready.
func (v *supervised) main(ctx context.Context, r *running) (err error) {
	var extra []string
	var said *notification
	if r.unit.Type == unit.TypeNotify {
		if said, err = listen(filepath.Join(v.s.config.RunDir, "notify", v.name)); err != nil {
			return err
		}
		extra = append(extra, "NOTIFY_SOCKET="+said.path)
	}
	if r.main, err = v.spawn(r, r.unit.Start[0], extra...); err != nil {
		said.close()
		return err
	}
	v.set(func(s *State) { s.PID = r.main.pid })
	if said == nil {
		return nil
	}
	go func() { // the socket stays: services say more later, and would fail
		<-r.main.done
		said.close()
	}()
	select {
	case <-said.ready:
		return nil
	case <-r.main.done:
		return &exitError{"ended before it was ready", r.main.status}
	case <-ctx.Done():
		return fmt.Errorf("not ready: %w", context.Cause(ctx))
	}
}

func (r *running) mainPID() []string {
	if r == nil || r.main == nil {
		return nil
	}
	return []string{"MAINPID=" + strconv.Itoa(r.main.pid)}
}

func (v *supervised) ready(r *running) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.run = r
	switch {
	case r.main != nil:
		v.state.Active, v.state.Sub = service.Active, "running"
	case r.unit.RemainAfterExit || strings.HasSuffix(v.name, ".target"):
		v.state.Active, v.state.Sub = service.Active, "exited"
	default:
		v.state.Active, v.state.Sub = service.Inactive, "dead"
	}
	v.log.Info("unit started", slog.Int("pid", v.state.PID))
}

func (v *supervised) failed(err error) {
	line := v.output.lastLine()
	if !errors.As(err, new(*exitError)) { // the service could not say it by itself
		fmt.Fprintln(v.output, err)
	}
	v.set(func(s *State) {
		s.fail(err)
		if line != "" {
			s.Message += ": " + line
		}
	})
	v.log.Warn("unit failed", slog.Any("error", err), slog.String("output", line))
}

// keep waits for the end of a run and starts the next, as the unit says, until the service is stopped.
func (v *supervised) keep(life context.Context, r *running, err error) {
	failures := 0
	for {
		clean, signalled := false, false
		if err == nil {
			if r.main == nil {
				return // a oneshot has done its work
			}
			<-r.main.done
			v.work.Lock()
			if life.Err() != nil { // it was stopped
				v.work.Unlock()
				return
			}
			clean, signalled = v.ended(r)
			v.work.Unlock()
		}
		if !r.unit.Restarts(clean, signalled) {
			return
		}
		if time.Since(r.began) >= stableRun {
			failures = 0
		}
		wait := r.unit.RestartWait
		for range failures {
			wait = max(min(2*wait, mostBackOff), r.unit.RestartWait)
		}
		failures++
		if !v.waiting(life) {
			return
		}
		v.log.Info("unit is started again", slog.Duration("in", wait))
		t := time.NewTimer(wait)
		select {
		case <-life.Done():
			t.Stop()
			return
		case <-t.C:
		}
		v.work.Lock()
		if life.Err() != nil {
			v.work.Unlock()
			return
		}
		u := r.unit
		if fresh, e := v.s.load(v.name); e == nil {
			u = fresh
			v.s.mu.Lock()
			v.unit = u
			v.s.mu.Unlock()
		} else {
			v.log.Warn("unit can't be read again, it is started as before", slog.Any("error", e))
		}
		v.set(func(s *State) { s.Restarts++ })
		r, err = v.launch(life, u)
		v.work.Unlock()
	}
}

// waiting for the next start, unless the service was stopped.
func (v *supervised) waiting(life context.Context) bool {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if life.Err() == nil {
		v.state.Active, v.state.Sub = service.Activating, "auto-restart"
	}
	return life.Err() == nil
}

func (v *supervised) reload(ctx context.Context) error {
	v.work.Lock()
	defer v.work.Unlock()
	state, r := v.get()
	switch {
	case !state.Runs() || r == nil:
		return fmt.Errorf("unit %s: it does not run, and can't be reloaded", v.name)
	case len(r.unit.Reload) == 0:
		return fmt.Errorf("unit %s: %w", v.name, errors.New("it has no ExecReload"))
	}
	ctx, cancel := withTimeout(ctx, r.unit.TimeoutStart)
	defer cancel()
	for _, c := range r.unit.Reload {
		if err := v.command(ctx, r, c, r.mainPID()...); err != nil {
			return fmt.Errorf("unit %s: reload: %w", v.name, err)
		}
	}
	return nil
}
