package ipmi

import (
	"errors"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
)

func TestPolicyOfErrors(t *testing.T) {
	b, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	status := func(code types.RmcpStatusCode) error {
		return &statusError{"RAKP message 2", types.NewRmcpStatusError(code)}
	}
	for _, c := range []struct {
		err    error
		policy bmc.Policy
		reason string
	}{
		// Proved by the password, or said in an authenticated session.
		{errCredentials, bmc.Terminal, region.ReasonAuthenticationFailed},
		{errPrivilege, bmc.Terminal, region.ReasonPrivilegeInsufficient},
		{types.CodeInsufficientPrivilege, bmc.Terminal, region.ReasonPrivilegeInsufficient},
		{types.CodeInvalidCommand, bmc.Terminal, region.ReasonUnsupportedByBMC},
		{types.CodeNodeBusy, bmc.Retry, region.ReasonBMCBusy},
		{types.CodeNotSupported, bmc.Retry, region.ReasonBMCBusy}, // in the present state
		{types.CodeCannotProvideResponseFirmwareUpdate, bmc.Wait, region.ReasonBMCInitializing},
		{types.CodeCannotProvideResponseBMCInitialize, bmc.Wait, region.ReasonBMCInitializing},
		{types.CodeUnspecifiedError, bmc.Retry, region.ReasonProtocolError},
		// Said by whoever answered: never terminal.
		{status(types.RmcpStatusCodeUnauthorizedName), bmc.Retry, region.ReasonAuthenticationFailed},
		{status(types.RmcpStatusCodeUnauthorizedRoleOfPriLevel), bmc.Retry, region.ReasonPrivilegeInsufficient},
		{status(types.RmcpStatusCodeInvalidRole), bmc.Retry, region.ReasonPrivilegeInsufficient},
		{status(types.RmcpStatusCodeNoCipherSuiteMatch), bmc.Retry, region.ReasonUnsupportedByBMC},
		{status(types.RmcpStatusCodeNoResToCreateSess), bmc.Retry, region.ReasonSessionsExhausted},
		{status(types.RmcpStatusCodeInvalidIntegrityCheckValue), bmc.Retry, region.ReasonProtocolError},
		{errKey, bmc.Retry, region.ReasonBMCKeyRequired},
		{errAnswer, bmc.Retry, region.ReasonProtocolError},
		{errors.New("anything"), bmc.Retry, region.ReasonProtocolError},
	} {
		got := b.explain("open session", c.err)
		if bmc.Class(got) != c.policy || bmc.Reason(got) != c.reason {
			t.Errorf("%v: %s %s, want %s %s", c.err, bmc.Class(got), bmc.Reason(got), c.policy, c.reason)
		}
	}
}
