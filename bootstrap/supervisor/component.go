package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A starting component is probed often over local sockets and loopback, because waiting for it
// dominates the time of a start. A component that takes longer has a problem, which frequent probes
// would make worse.
const (
	probeInterval     = 50 * time.Millisecond
	longProbeInterval = time.Second
	longProbe         = 10 * time.Second
)

// component is one supervised child and the loop that keeps it running.
type component struct {
	spec Spec
	s    *Supervisor
	log  *slog.Logger

	state    Component // guarded by s.mu
	launched bool      // guarded by s.mu
	// asked counts requests for a restart; served is the count just before the running process was
	// started.
	asked, served int           // guarded by s.mu
	poke          chan struct{} // signals the loop that asked has changed
	stop          context.CancelFunc
	ended         chan struct{}
}

// run restarts the component until life ends, and then stops the running process.
func (c *component) run(life context.Context) {
	output := newLogFile(c.s.config.LogDir, c.spec.Name)
	defer func() {
		if err := output.Close(); err != nil {
			c.log.Warn("closing the component's log", slog.Any("error", err))
		}
	}()
	failures := 0
	for life.Err() == nil {
		started := c.s.config.Clock.Now()
		exit, asked := c.once(life, output)
		if life.Err() != nil {
			c.log.Info("component stopped", slog.Any("exit", exit))
			return
		}
		if asked {
			c.log.Info("component exited as requested; restarting it", slog.Any("exit", exit))
			continue
		}
		if c.s.config.Clock.Since(started) >= stableRun {
			failures = 0
		}
		failures++
		wait := backOff(failures)
		c.log.Warn("component exited; restarting it", slog.Any("exit", exit), slog.Duration("in", wait))
		c.s.update(c, func(s *Component) { s.LastExit = exit })
		select {
		case <-life.Done():
		case <-c.s.config.Clock.After(wait):
		}
	}
}

// once waits for the gates, starts the component and returns how it exited, and whether that was
// because of Restart.
func (c *component) once(life context.Context, output *logFile) (exit string, asked bool) {
	if err := c.gate(life); err != nil {
		return err.Error(), false
	}
	cmd, done, err := c.start(output)
	if err != nil {
		return err.Error(), false
	}
	// The probe ends with the process, so that a late response does not mark the next process as
	// ready.
	probing, endProbe := context.WithCancel(life)
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		c.probe(probing)
	}()
	defer func() {
		endProbe()
		<-probed
		c.s.update(c, func(s *Component) { s.PID, s.Ready, s.Since, s.Waiting = 0, false, time.Time{}, "" })
		if err := os.Remove(c.s.pidFile(c.spec.Name)); err != nil && !os.IsNotExist(err) {
			c.log.Warn("removing the pid file", slog.Any("error", err))
		}
	}()
	for {
		select {
		case err := <-done:
			exit := exitText(cmd, err)
			if why := cause(output.takeLines()); why != "" {
				exit += ": " + why
				if c.spec.Remedy != nil {
					if remedy := c.spec.Remedy(why); remedy != "" {
						exit += "; " + remedy
					}
				}
			}
			return exit, false
		case <-life.Done():
			return c.terminate(cmd, done), false
		case <-c.poke:
			// The request may be older than this process, whose start has served it.
			if c.restartAsked() {
				return c.terminate(cmd, done), true
			}
		}
	}
}

// restartAsked reports whether a restart has been requested since the last start.
func (c *component) restartAsked() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.asked > c.served
}

// terminate terminates the process within its deadline and returns how it exited.
func (c *component) terminate(cmd *exec.Cmd, done <-chan error) string {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.log.Warn("signal the component to stop", slog.Any("error", err))
	}
	select {
	case err := <-done:
		return exitText(cmd, err)
	case <-time.After(c.spec.StopTimeout): // real time, not the clock of tests, because the process is real
	}
	c.log.Warn("component did not stop in time; killing it", slog.Duration("after", c.spec.StopTimeout))
	if err := cmd.Process.Kill(); err != nil {
		c.log.Warn("kill the component", slog.Any("error", err))
	}
	return exitText(cmd, <-done)
}

// gate waits until the component may start.
func (c *component) gate(life context.Context) error {
	defer c.s.update(c, func(s *Component) { s.Waiting = "" })
	if len(c.spec.After) > 0 {
		c.s.update(c, func(s *Component) { s.Waiting = "waiting for " + strings.Join(c.spec.After, ", ") + " to be ready" })
		if err := c.s.WaitReady(life, c.spec.After...); err != nil {
			return err
		}
	}
	if c.spec.Gate == nil {
		return nil
	}
	c.s.update(c, func(s *Component) { s.Waiting = "waiting for its gate" })
	if err := c.spec.Gate(life); err != nil {
		return fmt.Errorf("not started: %w", err)
	}
	return nil
}

// start starts the process and returns a channel that receives its result.
func (c *component) start(output *logFile) (*exec.Cmd, <-chan error, error) {
	cmd := exec.Command(c.spec.Path)
	cmd.Args = c.spec.Args
	cmd.Env = append(slices.DeleteFunc(os.Environ(), notForChildren), c.spec.Env...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Ctrl-C in a terminal signals the whole process group, but the children must stop in order.
		Setpgid: true,
		// If this process is killed, the children are killed, too, but not their children: pods' shims
		// stay.
		Pdeathsig: syscall.SIGTERM,
	}
	// Descendants that hold our pipe open (a starting shim) must not block Wait.
	cmd.WaitDelay = 2 * time.Second
	// Before the start: a process that starts after a later request may have read the old files.
	c.s.update(c, func(*Component) { c.served = c.asked })
	if err := c.s.launcher.start(cmd); err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", c.spec.Path, err)
	}
	if err := writePIDFile(c.s.pidFile(c.spec.Name), cmd.Process.Pid); err != nil {
		c.log.Warn("write the pid file; after a crash of regiond this component would not be found", slog.Any("error", err))
	}
	c.log.Info("component started", slog.Int("pid", cmd.Process.Pid))
	c.s.update(c, func(s *Component) {
		if c.launched {
			s.Restarts++
		}
		c.launched = true
		s.PID, s.Since, s.Ready = cmd.Process.Pid, c.s.config.Clock.Now(), c.spec.Probe == nil
	})
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return cmd, done, nil
}

// notForChildren reports whether a variable is one by which a service manager talks to this process
// only (sd_notify(3), sd_watchdog_enabled(3)), to which etcd, containerd and the kubelet would
// respond; or that of a proxy, through which they would talk to each other.
func notForChildren(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}, strings.ToUpper(name))
}

// probe probes until the component is ready or the process has exited.
func (c *component) probe(ctx context.Context) {
	if c.spec.Probe == nil {
		return
	}
	interval, began := probeInterval, time.Now()
	for {
		err := c.spec.Probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			c.log.Info("component ready")
			c.s.update(c, func(s *Component) { s.Ready, s.Waiting = true, "" })
			return
		}
		if time.Since(began) > longProbe {
			interval = longProbeInterval
			c.s.update(c, func(s *Component) { s.Waiting = "running, but not ready: " + err.Error() })
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// exitText describes how a process exited.
func exitText(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState == nil {
		return err.Error()
	}
	return cmd.ProcessState.String()
}
