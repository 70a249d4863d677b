package bmc

import (
	"errors"
	"net/netip"
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

// Reasons of errors. They are the reasons of the condition BMCReachable.
const (
	// ReasonCredentialsRefused: the BMC does not know the user or has another password for it.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonCredentialsInvalid: no BMC can hold credentials like these.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonPrivilegeInsufficient: the user may log in, but not do what is needed.
	ReasonPrivilegeInsufficient = "PrivilegeInsufficient"
	// ReasonBMCKeyRequired: the BMC has a key of its own (IPMI's K_G), and none was given.
	ReasonBMCKeyRequired = "BMCKeyRequired"
	// ReasonBMCKeyRefused: the BMC has another key than the one that was given, or none.
	ReasonBMCKeyRefused = "BMCKeyRefused"
	// ReasonUnsupported: the BMC can't do this, or not in the way that is needed.
	ReasonUnsupported = "UnsupportedByBMC"
	// ReasonUnreachable: the network or the host of the BMC says that nobody listens.
	ReasonUnreachable = "Unreachable"
	// ReasonNoAnswer: nothing comes back.
	ReasonNoAnswer = "NoAnswer"
	// ReasonBusy: the BMC can't do this in its present state.
	ReasonBusy = "Busy"
	// ReasonSessionsExhausted: all sessions of the BMC are in use.
	ReasonSessionsExhausted = "SessionsExhausted"
	// ReasonInitializing: the BMC starts or updates its firmware.
	ReasonInitializing = "Initializing"
	// ReasonProtocolError: the BMC answers what the protocol does not allow.
	ReasonProtocolError = "ProtocolError"
	// ReasonBootOverrideIgnored: the BMC accepts a boot device and does not keep it.
	ReasonBootOverrideIgnored = "BootOverrideIgnored"
	// ReasonPowerStateUnchanged: the BMC accepts a power command that has no effect.
	ReasonPowerStateUnchanged = "PowerStateUnchanged"
	// ReasonClosed: regiond is shutting down.
	ReasonClosed = "Closed"
)

// Error is an error of one BMC. It names user and address, never the password.
type Error struct {
	Policy  Policy
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
	return ReasonProtocolError
}

// Refused says that the BMC itself refused the credentials: they are not tried again at once.
func Refused(err error) bool {
	if Class(err) != Terminal {
		return false
	}
	switch Reason(err) {
	case ReasonCredentialsRefused, ReasonCredentialsInvalid, ReasonPrivilegeInsufficient:
		return true
	}
	return false
}
