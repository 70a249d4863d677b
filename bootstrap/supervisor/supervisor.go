// Package supervisor runs the processes of the control plane as children of this one: started when what they need is ready,
// restarted one by one with back-off, stopped in reverse order, their output kept in rotated files. Children left by a supervisor
// that was killed are ended before new ones start; nothing is adopted, because a child that is not ours cannot be waited for.
package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Spec describes a component: one child process that is to run for as long as the supervisor does.
type Spec struct {
	// Name is the component's name in status, log and pid files.
	Name string
	// Path is the program; Args its argument vector, whose first element is what the program sees as its own name.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// After names components that must be ready before every start of this one. They must have been given before it.
	After []string
	// Gate, if set, runs before every start, after After. An error is logged, counted as a failure and tried again with back-off.
	Gate func(context.Context) error
	// Probe says whether the component is ready; it is asked until it is. Without one, a component is ready once it runs.
	Probe func(context.Context) error
	// Remedy says what to do about the cause of an end, empty when there is nothing to add. May be nil.
	Remedy func(cause string) string
	// StopTimeout is how long the component may take to end after SIGTERM before it is killed. Default 15 s.
	StopTimeout time.Duration
}

// Component is a component's state, for status.
type Component struct {
	Name string `json:"name"`
	// PID is 0 while the component does not run.
	PID int `json:"pid,omitempty"`
	// Since is when the running process was started.
	Since time.Time `json:"since,omitzero"`
	// Restarts counts starts after the first one.
	Restarts int `json:"restarts"`
	// Ready is true when the probe of the running process has succeeded.
	Ready bool `json:"ready"`
	// LastExit says how the last process ended, or what keeps the next from starting.
	LastExit string `json:"lastExit,omitempty"`
	// Problem says what keeps a component that runs from doing its work, for causes outside of its process. It is not ready then.
	Problem string `json:"problem,omitempty"`
	// Waiting says what a start waits for, or why a running component has not become ready for long.
	Waiting string `json:"waiting,omitempty"`
}

// Config says where a supervisor keeps its files.
type Config struct {
	// RunDir holds the children's pid files; it must outlive a crash of this process, not a reboot.
	RunDir string
	// LogDir holds <component>.log.
	LogDir string
	Log    *slog.Logger
	// Clock times back-off and stable runs. Default: the real one.
	Clock clock.Clock
}

// Supervisor runs components. Make one with New.
type Supervisor struct {
	config     Config
	components []*component
	launcher   *launcher

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever any component's state changes
}

// New prepares a supervisor for the components, in their order of start. It starts nothing.
func New(config Config, specs []Spec) (*Supervisor, error) {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Supervisor{config: config, changed: make(chan struct{})}
	var names []string
	for _, spec := range specs {
		if spec.Name == "" || spec.Path == "" || len(spec.Args) == 0 {
			return nil, fmt.Errorf("component %q: name, path and arguments are needed", spec.Name)
		}
		if slices.Contains(names, spec.Name) {
			return nil, fmt.Errorf("component %s is given twice", spec.Name)
		}
		for _, a := range spec.After {
			if !slices.Contains(names, a) {
				return nil, fmt.Errorf("component %s starts after %s, which is not given before it", spec.Name, a)
			}
		}
		if spec.StopTimeout == 0 {
			spec.StopTimeout = 15 * time.Second
		}
		names = append(names, spec.Name)
		s.components = append(s.components, &component{spec: spec, s: s, log: config.Log.With(slog.String("component", spec.Name)), state: Component{Name: spec.Name}, poke: make(chan struct{}, 1)})
	}
	return s, nil
}

// Run ends leftovers of an earlier run, keeps the components running until the context ends, then
// stops them in reverse order, each within its deadline. It returns when none of them runs.
func (s *Supervisor) Run(ctx context.Context) error {
	for _, dir := range []string{s.config.RunDir, s.config.LogDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("supervisor: %w", err)
		}
	}
	// Reverse order as in a stop: clients before what they talk to.
	for _, c := range slices.Backward(s.components) {
		if err := endLeftover(ctx, s.pidFile(c.spec.Name), c.spec.StopTimeout, c.log); err != nil {
			return err
		}
	}
	s.launcher = newLauncher()
	defer s.launcher.close()

	// The children outlive ctx: each is told to stop in its turn, not when the context ends.
	for _, c := range s.components {
		life, stop := context.WithCancel(context.WithoutCancel(ctx))
		c.stop = stop
		c.ended = make(chan struct{})
		go func() {
			defer close(c.ended)
			c.run(life)
		}()
	}
	<-ctx.Done()
	for _, c := range slices.Backward(s.components) {
		c.stop()
		<-c.ended
	}
	return nil
}

// Snapshot is the state of all components, in their order of start.
func (s *Supervisor) Snapshot() []Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Component, len(s.components))
	for i, c := range s.components {
		out[i] = c.state
	}
	return out
}

// WaitReady waits until the named components are ready at the same time; without names, all of them.
func (s *Supervisor) WaitReady(ctx context.Context, names ...string) error {
	for {
		s.mu.Lock()
		var waiting []string
		for _, c := range s.components {
			if (len(names) == 0 || slices.Contains(names, c.spec.Name)) && !c.state.Ready {
				waiting = append(waiting, c.spec.Name)
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %v to be ready: %w", waiting, context.Cause(ctx))
		case <-changed:
		}
	}
}

// Restart ends a component's process, in the component's time to stop, and returns when one that
// was started after the call is ready. When none runs it waits for the next. Other components are
// left alone, also those that start after this one.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	i := slices.IndexFunc(s.components, func(c *component) bool { return c.spec.Name == name })
	if i < 0 {
		return fmt.Errorf("restart of %s: there is no such component", name)
	}
	c := s.components[i]
	s.mu.Lock()
	c.asked++
	request := c.asked
	s.mu.Unlock()
	select {
	case c.poke <- struct{}{}:
	default: // an earlier request has not been looked at; one look is enough
	}
	for {
		s.mu.Lock()
		served, state, changed := c.served >= request && c.state.Ready, c.state, s.changed
		s.mu.Unlock()
		if served {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("restart of %s: it is not ready again (%s; last exit: %s): %w", name, state.Waiting, state.LastExit, context.Cause(ctx))
		case <-changed:
		}
	}
}

// update changes a component's state and wakes who waits for it.
func (s *Supervisor) update(c *component, f func(*Component)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&c.state)
	close(s.changed)
	s.changed = make(chan struct{})
}
