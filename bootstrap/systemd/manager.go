package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Booted reports whether systemd is this host's service manager, as sd_booted(3) does.
func Booted() bool {
	i, err := os.Lstat("/run/systemd/system")
	return err == nil && i.IsDir()
}

// Systemctl runs systemctl with arguments and returns its output.
type Systemctl func(ctx context.Context, args ...string) (string, error)

// Run runs systemctl of this host.
func Run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			return string(out), fmt.Errorf("systemctl %s: %s", strings.Join(args, " "), strings.TrimSpace(string(exit.Stderr)))
		}
		return string(out), fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// State is the state of the service (org.freedesktop.systemd1(5)).
type State struct {
	// Active is e.g. active, activating, inactive, failed; Sub e.g. running, start, auto-restart,
	// dead.
	Active, Sub string
	// Invocation identifies one run of the service; it changes with every start.
	Invocation string
}

// Show returns the state. A unit that does not exist is inactive.
func Show(ctx context.Context, s Systemctl) (State, error) {
	out, err := s(ctx, "show", "--property=ActiveState,SubState,InvocationID", UnitName)
	if err != nil {
		return State{}, err
	}
	var st State
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ActiveState":
			st.Active = value
		case "SubState":
			st.Sub = value
		case "InvocationID":
			st.Invocation = value
		}
	}
	return st, nil
}

// Up reports whether the service is running or starting, rather than waiting for a restart.
func (s State) Up() bool {
	return s.Active == "active" || s.Active == "activating" && s.Sub != "auto-restart"
}

// Ended reports whether a run of the service other than the given one has ended on its own.
func (s State) Ended(other string) bool {
	return s.Invocation != "" && s.Invocation != other && (s.Sub == "auto-restart" || s.Active == "failed")
}
