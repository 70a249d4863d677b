// Package supervisor runs the processes of the control plane as children of this process. It starts
// them when their dependencies are ready, restarts them one by one with back-off, stops them in
// reverse order, and writes their output to rotated files. Children of a killed supervisor are
// terminated before new ones start; they are not adopted, because a process can only wait for its
// own children.
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

// Spec describes a component: a child process that runs as long as the supervisor.
type Spec struct {
	// Name is the component's name in status, log and pid files.
	Name string
	// Path is the program; Args is its argument vector, whose first element is the program's own name.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// After names components that must be ready before every start of this one. They must precede it
	// in the list.
	After []string
	// Gate, if set, runs before every start, once After is satisfied. An error is logged, counted as a
	// failure and retried with back-off.
	Gate func(context.Context) error
	// Probe returns nil if the component is ready; it is called until then. Without it, a component is
	// ready once it runs.
	Probe func(context.Context) error
	// Remedy says what to do about the cause of an exit, empty if there is nothing to add. May be nil.
	Remedy func(cause string) string
	// StopTimeout is how long the component has to exit after SIGTERM before it is killed. Default: 15
	// s.
	StopTimeout time.Duration
}

// Component is the state of a component, for status.
type Component struct {
	Name string `json:"name"`
	// PID is 0 while the component is not running.
	PID int `json:"pid,omitempty"`
	// Since is when the running process was started.
	Since time.Time `json:"since,omitzero"`
	// Restarts counts starts after the first one.
	Restarts int `json:"restarts"`
	// Ready is true when the probe of the running process has succeeded.
	Ready bool `json:"ready"`
	// LastExit says how the last process exited, or what prevents the next start.
	LastExit string `json:"lastExit,omitempty"`
	// Problem says why a running component can't do its work, for causes outside of its process. It is
	// then not ready.
	Problem string `json:"problem,omitempty"`
	// Waiting says what a start is waiting for, or why a running component has not been ready for a
	// long time.
	Waiting string `json:"waiting,omitempty"`
}

// Config configures a supervisor.
type Config struct {
	// RunDir has the children's pid files; it must survive a crash of this process, but not a reboot.
	RunDir string
	// LogDir has the files <component>.log.
	LogDir string
	Log    *slog.Logger
	// Clock for back-off and stable runs. Default: real time.
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

// New returns a supervisor for the components, in the order in which they start. It starts nothing.
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
			return nil, fmt.Errorf("component %q: name, path and arguments are required", spec.Name)
		}
		if slices.Contains(names, spec.Name) {
			return nil, fmt.Errorf("component %s is given twice", spec.Name)
		}
		for _, a := range spec.After {
			if !slices.Contains(names, a) {
				return nil, fmt.Errorf("component %s starts after %s, which does not precede it", spec.Name, a)
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

// Run terminates leftovers of an earlier run, keeps the components running until the context ends,
// and then stops them in reverse order, each within its deadline. It returns when all have exited.
func (s *Supervisor) Run(ctx context.Context) error {
	for _, dir := range []string{s.config.RunDir, s.config.LogDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("supervisor: %w", err)
		}
	}
	// Reverse order as in a stop: clients before their servers.
	for _, c := range slices.Backward(s.components) {
		if err := endLeftover(ctx, s.pidFile(c.spec.Name), c.spec.StopTimeout, c.log); err != nil {
			return err
		}
	}
	s.launcher = newLauncher()
	defer s.launcher.close()

	// The children outlive ctx: each is stopped in its turn, not when the context ends.
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

// Snapshot returns the state of all components, in the order in which they start.
func (s *Supervisor) Snapshot() []Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Component, len(s.components))
	for i, c := range s.components {
		out[i] = c.state
	}
	return out
}

// WaitReady waits until the named components, or all without names, are ready at the same time.
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

// Restart terminates a component's process within the component's StopTimeout, and returns when a
// process that was started after the call is ready. If none is running, it waits for the next one.
// Other components are left alone, even those that start after this one.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	i := slices.IndexFunc(s.components, func(c *component) bool { return c.spec.Name == name })
	if i < 0 {
		return fmt.Errorf("restart %s: there is no such component", name)
	}
	c := s.components[i]
	s.mu.Lock()
	c.asked++
	request := c.asked
	s.mu.Unlock()
	select {
	case c.poke <- struct{}{}:
	default: // an earlier request is still pending, and one is enough
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
			return fmt.Errorf("restart %s: it is not ready again (%s; last exit: %s): %w", name, state.Waiting, state.LastExit, context.Cause(ctx))
		case <-changed:
		}
	}
}

// update changes a component's state and wakes waiters.
func (s *Supervisor) update(c *component, f func(*Component)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&c.state)
	close(s.changed)
	s.changed = make(chan struct{})
}
