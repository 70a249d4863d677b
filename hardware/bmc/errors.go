package bmc

import (
	"errors"
	"net/netip"

	"regiond.dev/regiond/region"
)

// Policy is what to do about an error of a BMC.
type Policy int

// Policies.
const (
	// Retry with back-off and jitter: it may work the next time. So is everything that a BMC, or whoever
	// answers in its place, says before a session is authenticated.
	Retry Policy = iota
	// Wait for the BMC to finish what it is doing; it is not at fault and must not be hurried.
	Wait
	// Terminal until the request changes, e.g. the credentials. Refused credentials are tried again at long
	// intervals only, or the BMC may lock the user out.
	Terminal
)

func (p Policy) String() string {
	switch p {
	case Wait:
		return "Wait"
	case Terminal:
		return "Terminal"
	default:
		return "Retry"
	}
}

// Error is an error of one BMC. It names user and address, never the password.
type Error struct {
	Policy Policy
	// Reason is one of the condition BMCReachable, see region.
	Reason  string
	Address netip.AddrPort
	// Username, when the error is about credentials.
	Username string
	// Operation that failed, e.g. "read power state".
	Operation string
	// Detail is what was seen, and Advice what to do.
	Detail string
	Advice string
	// Err is the cause, may be nil.
	Err error
}

func (e *Error) Error() string {
	who := e.Address.String()
	if e.Username != "" {
		who = e.Username + "@" + who
	}
	s := "BMC " + who
	if e.Operation != "" {
		s += ": " + e.Operation
	}
	s += ": " + e.Detail
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Class is the policy for an error of a BMC. What is not known (network errors, expired deadlines) is
// tried again.
func Class(err error) Policy {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Policy
	}
	return Retry
}

// Reason is the condition reason for an error of a BMC.
func Reason(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return region.ReasonProtocolError
}

// Refused says that the BMC itself refused the credentials: they are not tried again at once.
func Refused(err error) bool {
	if Class(err) != Terminal {
		return false
	}
	switch Reason(err) {
	case region.ReasonAuthenticationFailed, region.ReasonCredentialsInvalid, region.ReasonPrivilegeInsufficient:
		return true
	}
	return false
}
