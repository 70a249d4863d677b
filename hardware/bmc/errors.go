package bmc

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/bougou/go-ipmi/pkg/types"
)

// Policy is what to do about an error of a BMC.
type Policy int

// Policies.
const (
	// Retry with back-off and jitter: it may work the next time.
	Retry Policy = iota
	// Wait for the BMC to finish what it is doing; it is not at fault and must not be hurried.
	Wait
	// Terminal until the wish changes, e.g. the credentials. Trying again may lock the user out.
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

// Reasons of errors, in the form of condition reasons.
const (
	ReasonCredentialsRefused    = "CredentialsRefused"
	ReasonCredentialsInvalid    = "CredentialsInvalid"
	ReasonPrivilegeInsufficient = "PrivilegeInsufficient"
	ReasonUnsupported           = "UnsupportedByBMC"
	ReasonUnreachable           = "Unreachable"
	ReasonNoAnswer              = "NoAnswer"
	ReasonBusy                  = "Busy"
	ReasonSessionsExhausted     = "SessionsExhausted"
	ReasonInitializing          = "Initializing"
	ReasonProtocolError         = "ProtocolError"
	ReasonBootOverrideIgnored   = "BootOverrideIgnored"
	ReasonPowerStateUnchanged   = "PowerStateUnchanged"
	ReasonClosed                = "Closed"
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

// Class is the policy for an error of a BMC. It is the only place that decides it. What is not
// known (network errors, expired deadlines) is tried again.
func Class(err error) Policy {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Policy
	}
	if code := types.CompletionCode(0); errors.As(err, &code) {
		p, _ := ClassOfCompletionCode(code)
		return p
	}
	if status := (*types.RmcpStatusError)(nil); errors.As(err, &status) {
		p, _ := ClassOfStatus(status.StatusCode())
		return p
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

// ClassOfCompletionCode is the policy and reason for a command's completion code (IPMI v2.0 rev 1.1 table 5-2).
func ClassOfCompletionCode(code types.CompletionCode) (Policy, string) {
	switch code {
	case types.CodeInsufficientPrivilege:
		return Terminal, ReasonPrivilegeInsufficient
	case types.CodeInvalidCommand, types.CodeInvalidCommandForLUN, types.CodeSubFnDisabled,
		types.CodeRequestDataTruncated, types.CodeRequestDataLengthInvalid, types.CodeRequestDataLengthLimitExceeded,
		types.CodeParameterOutOfRange, types.CodeRequestDataFieldInvalid, types.CodeIllegalCommand,
		types.CodeRequestedDataNotPresent:
		// The BMC understood and will say the same again.
		return Terminal, ReasonUnsupported
	case types.CodeCannotProvideResponseSDRRInUpdate, types.CodeCannotProvideResponseFirmwareUpdate,
		types.CodeCannotProvideResponseBMCInitialize:
		return Wait, ReasonInitializing
	case types.CodeNodeBusy, types.CodeProcessTimeout, types.CodeOutOfSpace, types.CodeCannotProvideResponse,
		types.CodeCannotExecuteDuplicatedRequest, types.CodeDestinationUnavailable, types.CodeNotSupported:
		// 0xD5 is 'not supported in present state': e.g. power on while the server is still going down.
		return Retry, ReasonBusy
	}
	return Retry, ReasonProtocolError
}

// ClassOfStatus is the policy and reason for a status code of Open Session or RAKP (table 13-15).
func ClassOfStatus(code types.RmcpStatusCode) (Policy, string) {
	switch code {
	case types.RmcpStatusCodeUnauthorizedName, types.RmcpStatusCodeInvalidNameLength,
		types.RmcpStatusCodeUnauthorizedGUID:
		return Terminal, ReasonCredentialsRefused
	case types.RmcpStatusCodeUnauthorizedRoleOfPriLevel, types.RmcpStatusCodeInvalidRole:
		return Terminal, ReasonPrivilegeInsufficient
	case types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg,
		types.RmcpStatusCodeNoMatchingAuthPayload, types.RmcpStatusCodeNoMatchingIntegrityPayload,
		types.RmcpStatusCodeInvalidConfidentAlg, types.RmcpStatusCodeNoCipherSuiteMatch:
		return Terminal, ReasonUnsupported
	case types.RmcpStatusCodeNoResToCreateSess, types.RmcpStatusCodeNoResToCreateSessAtRole:
		return Retry, ReasonSessionsExhausted
	}
	return Retry, ReasonProtocolError
}

// Limits of credentials (IPMI v2.0 rev 1.1 sections 22.28 and 22.30).
const (
	MaxUsernameLength = 16
	MaxPasswordLength = 20
)

// CheckCredentials refuses what no BMC can hold. A BMC would cut it off silently, and every login would fail.
func CheckCredentials(address netip.AddrPort, username, password string) error {
	e := &Error{
		Policy: Terminal, Reason: ReasonCredentialsInvalid, Address: address, Username: username,
		Operation: "check credentials",
	}
	switch {
	case len(username) > MaxUsernameLength:
		e.Detail = fmt.Sprintf("the user name has %d bytes, IPMI allows %d", len(username), MaxUsernameLength)
		e.Advice = "use a BMC user with a shorter name"
	case len(password) > MaxPasswordLength:
		e.Detail = fmt.Sprintf("the password has %d bytes, IPMI allows %d", len(password), MaxPasswordLength)
		e.Advice = "set a shorter password on the BMC and in the credentials file"
	default:
		return nil
	}
	return e
}
