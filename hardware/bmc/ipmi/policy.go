package ipmi

import (
	"fmt"

	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
)

// classOfCompletionCode is the policy and reason for a command's completion code (table 5-2). It comes in a
// session, so it is the BMC's own word.
func classOfCompletionCode(code types.CompletionCode) (bmc.Policy, string) {
	switch code {
	case types.CodeInsufficientPrivilege:
		return bmc.Terminal, region.ReasonPrivilegeInsufficient
	case types.CodeInvalidCommand, types.CodeInvalidCommandForLUN, types.CodeSubFnDisabled,
		types.CodeRequestDataTruncated, types.CodeRequestDataLengthInvalid, types.CodeRequestDataLengthLimitExceeded,
		types.CodeParameterOutOfRange, types.CodeRequestDataFieldInvalid, types.CodeIllegalCommand,
		types.CodeRequestedDataNotPresent:
		// The BMC understood and will say the same again.
		return bmc.Terminal, region.ReasonUnsupportedByBMC
	case types.CodeCannotProvideResponseSDRRInUpdate, types.CodeCannotProvideResponseFirmwareUpdate,
		types.CodeCannotProvideResponseBMCInitialize:
		return bmc.Wait, region.ReasonBMCInitializing
	case types.CodeNodeBusy, types.CodeProcessTimeout, types.CodeOutOfSpace, types.CodeCannotProvideResponse,
		types.CodeCannotExecuteDuplicatedRequest, types.CodeDestinationUnavailable, types.CodeNotSupported:
		// 0xD5 is 'not supported in present state': e.g. power on while the server is still going down.
		return bmc.Retry, region.ReasonBMCBusy
	}
	return bmc.Retry, region.ReasonProtocolError
}

// reasonOfStatus is the reason for a status code of Open Session or RAKP (table 13-15). The policy is always to
// try again: these messages are not authenticated, so anyone may have sent them, and BMCs that are
// starting refuse users, roles and cipher suites that they accept a minute later.
func reasonOfStatus(code types.RmcpStatusCode) string {
	switch code {
	case types.RmcpStatusCodeUnauthorizedName, types.RmcpStatusCodeInvalidNameLength,
		types.RmcpStatusCodeUnauthorizedGUID:
		return region.ReasonAuthenticationFailed
	case types.RmcpStatusCodeUnauthorizedRoleOfPriLevel, types.RmcpStatusCodeInvalidRole:
		return region.ReasonPrivilegeInsufficient
	case types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg,
		types.RmcpStatusCodeNoMatchingAuthPayload, types.RmcpStatusCodeNoMatchingIntegrityPayload,
		types.RmcpStatusCodeInvalidConfidentAlg, types.RmcpStatusCodeNoCipherSuiteMatch:
		return region.ReasonUnsupportedByBMC
	case types.RmcpStatusCodeNoResToCreateSess, types.RmcpStatusCodeNoResToCreateSessAtRole:
		return region.ReasonSessionsExhausted
	}
	return region.ReasonProtocolError
}

// Limits of credentials in bytes (sections 22.28, 22.30 and 22.25).
const (
	maxUsername = 16
	maxPassword = 20
	maxKey      = 20
)

// checkCredentials refuses what no BMC can hold. A BMC would cut it off silently, and every login would fail.
func checkCredentials(t bmc.Target) error {
	e := &bmc.Error{
		Policy: bmc.Terminal, Reason: region.ReasonCredentialsInvalid, Address: t.Address, Username: t.Username,
		Operation: "check credentials",
	}
	switch {
	case len(t.Username) > maxUsername:
		e.Detail = fmt.Sprintf("the user name has %d bytes, IPMI allows %d", len(t.Username), maxUsername)
		e.Advice = "use a BMC user with a shorter name"
	case len(t.Password) > maxPassword:
		e.Detail = fmt.Sprintf("the password has %d bytes, IPMI allows %d", len(t.Password), maxPassword)
		e.Advice = "set a shorter password on the BMC and in the credentials file"
	case len(t.Key) > maxKey:
		e.Detail = fmt.Sprintf("the BMC key has %d bytes, IPMI allows %d", len(t.Key), maxKey)
		e.Advice = "correct bmcKey in the credentials file"
	default:
		return nil
	}
	return e
}
