package nodeinit

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"regiond.dev/regiond/node/service"
)

// State of a service, and how its last run ended, as the properties Result, ExecMainCode and ExecMainStatus of systemd have it.
type State struct {
	service.State
	Result     string `json:"result,omitempty"`
	Code       int    `json:"code,omitempty"`
	ExitStatus int    `json:"exitStatus,omitempty"`
}

// Results of a run (org.freedesktop.systemd1(5), property Result).
const (
	resultSuccess   = "success"
	resultExitCode  = "exit-code"
	resultSignal    = "signal"
	resultTimeout   = "timeout"
	resultResources = "resources" // the process could not be started
)

// How a process ended: CLD_EXITED and CLD_KILLED of waitid(2), which also systemd reports.
const (
	codeExited = 1
	codeKilled = 2
)

// exitError says that a process ended as it should not have.
type exitError struct {
	what   string
	status syscall.WaitStatus
}

func (e *exitError) Error() string {
	if e.what == "" {
		return exitText(e.status)
	}
	return e.what + ": " + exitText(e.status)
}

// timeoutError says that something took longer than its unit allows.
type timeoutError time.Duration

func (e timeoutError) Error() string { return fmt.Sprintf("not within %s", time.Duration(e)) }

// fail records that a run of the service failed.
func (s *State) fail(err error) {
	s.Active, s.Sub, s.PID, s.Message = service.Failed, "failed", 0, err.Error()
	s.Result, s.Code, s.ExitStatus = resultResources, 0, 0
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		s.Result, s.Code, s.ExitStatus = resultExitCode, codeExited, exit.status.ExitStatus()
		if exit.status.Signaled() {
			s.Result, s.Code, s.ExitStatus = resultSignal, codeKilled, int(exit.status.Signal())
		}
	}
	if errors.As(err, new(timeoutError)) {
		s.Result = resultTimeout
	}
}
