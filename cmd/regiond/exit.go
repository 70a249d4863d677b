package main

import (
	"errors"
	"net/url"

	"regiond.dev/regiond/region/check"
)

// Exit statuses of every command. They are part of the interface: scripts tell by them what to do
// next.
const (
	exitFailed      = 1 // something failed; the message says what
	exitChanges     = 2 // plan --exit-code: the region differs from its declaration
	exitInvalid     = 3 // the command line or a file is wrong: nothing was tried
	exitUnreachable = 4 // the control plane does not answer
	exitNotReady    = 5 // it answers, and is not as declared yet
	exitRefused     = 6 // it would lose something, or was not approved; nothing was changed
)

// exitHelp is what the help says of them.
const exitHelp = `Exit status: 0 done, 1 failed, 2 changes (plan --exit-code), 3 wrong command line or invalid file,
4 control plane not reachable, 5 not ready (yet), 6 refused: it was not approved, or would lose data or
guests.`

// statusError is an error with the exit status that it ends the command with.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

func invalid(err error) error     { return withStatus(err, exitInvalid) }
func unreachable(err error) error { return withStatus(err, exitUnreachable) }
func notReady(err error) error    { return withStatus(err, exitNotReady) }

// refused marks a refusal; an error with a more precise status keeps it.
func refused(err error) error {
	if exitStatus(err) != exitFailed {
		return err
	}
	return withStatus(err, exitRefused)
}

func withStatus(err error, status int) error {
	if err == nil {
		return nil
	}
	return statusError{err, status}
}

// exitStatus that a command ends with.
func exitStatus(err error) int {
	var s statusError
	var problems check.Problems
	var request *url.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return s.status
	case errors.Is(err, errChanges):
		return exitChanges
	case errors.As(err, &problems):
		return exitInvalid
	case errors.As(err, &request): // an HTTP request that got no answer; images are not fetched by this process
		return exitUnreachable
	}
	return exitFailed
}
