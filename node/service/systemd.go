package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Times that systemctl may take. A start ends when the service says that it is ready, within its own TimeoutStartSec.
const (
	askTimeout = 15 * time.Second
	jobTimeout = 10 * time.Minute
)

// Systemd manages services by systemctl(1): a process for each order is slower than its bus, and needs no connection to be kept,
// authenticated and found again after systemd was replaced.
type Systemd struct {
	// Run executes a program and returns what it wrote to its standard output. Nil: really.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// properties that are asked for.
const properties = "LoadState,ActiveState,SubState,MainPID,InvocationID,ExecMainStartTimestamp,NRestarts," +
	"UnitFileState,NeedDaemonReload,Result,ExecMainCode,ExecMainStatus"

// States of services by name. One that is not known is Missing.
func (s Systemd) States(ctx context.Context, names []string) (map[string]State, error) {
	if len(names) == 0 {
		return map[string]State{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, err := s.run(ctx, "systemctl", append([]string{"show", "--timestamp=unix", "--property=" + properties, "--"}, names...)...)
	if err != nil {
		return nil, err
	}
	states := map[string]State{}
	blocks := strings.Split(strings.TrimSpace(string(out)), "\n\n")
	if len(blocks) != len(names) {
		return nil, fmt.Errorf("systemctl show: %d answers to a question for %d units", len(blocks), len(names))
	}
	for i, block := range blocks {
		state, result, err := parseShow(block)
		if err != nil {
			return nil, fmt.Errorf("systemctl show %s: %w", names[i], err)
		}
		state.Name = names[i] // Id differs for an alias
		if state.Active == Failed || state.Sub == "auto-restart" {
			state.Message = s.why(ctx, names[i], result)
		}
		states[names[i]] = state
	}
	return states, nil
}

// notEnabled are the states of unit files of which enabling changes something (systemctl(1), is-enabled).
var notEnabled = []string{"", "disabled", "masked", "masked-runtime", "linked", "linked-runtime", "bad"}

// parseShow reads the properties of one unit.
func parseShow(block string) (s State, result string, err error) {
	p := map[string]string{}
	for line := range strings.Lines(block) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "="); ok {
			p[key] = value
		}
	}
	s = State{Active: p["ActiveState"], Sub: p["SubState"], Missing: p["LoadState"] == "not-found", Invocation: p["InvocationID"],
		Enabled: !slices.Contains(notEnabled, p["UnitFileState"]), Stale: p["NeedDaemonReload"] == "yes"}
	number := func(key string) int {
		if p[key] == "" {
			return 0
		}
		n, e := strconv.Atoi(p[key])
		if e != nil {
			err = fmt.Errorf("%s: %w", key, e)
		}
		return n
	}
	s.PID, s.Restarts = number("MainPID"), number("NRestarts")
	if t := p["ExecMainStartTimestamp"]; t != "" && t != "n/a" { // @seconds
		seconds, e := strconv.ParseInt(strings.TrimPrefix(t, "@"), 10, 64)
		if e != nil {
			err = fmt.Errorf("ExecMainStartTimestamp: %w", e)
		} else if seconds > 0 {
			s.Started = time.Unix(seconds, 0)
		}
	}
	result = p["Result"]
	switch p["ExecMainCode"] { // CLD_*, see sigaction(2)
	case "1":
		result += ", exit status " + p["ExecMainStatus"]
	case "2", "3":
		result += ", killed by signal " + p["ExecMainStatus"]
	}
	if s.Active == "" {
		err = errors.Join(err, errors.New("no ActiveState in the answer"))
	}
	return s, result, err
}

// why a service failed: how it ended, and the last line that it wrote itself; --unit= would also match what systemd says of it
// (journalctl(1)), which is the last line mostly.
func (s Systemd) why(ctx context.Context, name, result string) string {
	out, err := s.run(ctx, "journalctl", "_SYSTEMD_UNIT="+name, "--lines=1", "--output=cat", "--no-pager", "--quiet")
	line := strings.TrimSpace(string(out))
	if err != nil || line == "" {
		return result
	}
	return result + ": " + line
}

// Start starts a service, and forgets that it failed before, so that systemd's start limit does not count against it.
func (s Systemd) Start(ctx context.Context, name string) error {
	if err := s.job(ctx, "reset-failed", name); err != nil && ctx.Err() != nil {
		return err // a unit that is not loaded has not failed: systemctl calls that an error
	}
	return s.job(ctx, "start", name)
}

// Stop stops a service.
func (s Systemd) Stop(ctx context.Context, name string) error { return s.job(ctx, "stop", name) }

// Restart restarts a service, or starts it.
func (s Systemd) Restart(ctx context.Context, name string) error { return s.job(ctx, "restart", name) }

// Reload has a service read its files again.
func (s Systemd) Reload(ctx context.Context, name string) error { return s.job(ctx, "reload", name) }

// Enable has a service started at boot. What is enabled matters at the next boot only, so systemd
// need not read all its units again for each, which takes seconds on a slow machine.
func (s Systemd) Enable(ctx context.Context, name string) error {
	return s.job(ctx, "enable", "--no-reload", name)
}

// Disable ends that.
func (s Systemd) Disable(ctx context.Context, name string) error {
	return s.job(ctx, "disable", "--no-reload", name)
}

// ReloadUnits has systemd read all unit files again.
func (s Systemd) ReloadUnits(ctx context.Context) error { return s.job(ctx, "daemon-reload") }

func (s Systemd) job(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	_, err := s.run(ctx, "systemctl", args...)
	return err
}

func (s Systemd) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if s.Run != nil {
		return s.Run(ctx, name, args...)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
