package ipmi

import (
	"errors"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
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
		{errCredentials, bmc.Terminal, bmc.ReasonCredentialsRefused},
		{errPrivilege, bmc.Terminal, bmc.ReasonPrivilegeInsufficient},
		{types.CodeInsufficientPrivilege, bmc.Terminal, bmc.ReasonPrivilegeInsufficient},
		{types.CodeInvalidCommand, bmc.Terminal, bmc.ReasonUnsupported},
		{types.CodeNodeBusy, bmc.Retry, bmc.ReasonBusy},
		{types.CodeNotSupported, bmc.Retry, bmc.ReasonBusy}, // in the present state
		{types.CodeCannotProvideResponseFirmwareUpdate, bmc.Wait, bmc.ReasonInitializing},
		{types.CodeCannotProvideResponseBMCInitialize, bmc.Wait, bmc.ReasonInitializing},
		{types.CodeUnspecifiedError, bmc.Retry, bmc.ReasonProtocolError},
		// Said by whoever answered: never terminal.
		{status(types.RmcpStatusCodeUnauthorizedName), bmc.Retry, bmc.ReasonCredentialsRefused},
		{status(types.RmcpStatusCodeUnauthorizedRoleOfPriLevel), bmc.Retry, bmc.ReasonPrivilegeInsufficient},
		{status(types.RmcpStatusCodeInvalidRole), bmc.Retry, bmc.ReasonPrivilegeInsufficient},
		{status(types.RmcpStatusCodeNoCipherSuiteMatch), bmc.Retry, bmc.ReasonUnsupported},
		{status(types.RmcpStatusCodeNoResToCreateSess), bmc.Retry, bmc.ReasonSessionsExhausted},
		{status(types.RmcpStatusCodeInvalidIntegrityCheckValue), bmc.Retry, bmc.ReasonProtocolError},
		{errKey, bmc.Retry, bmc.ReasonBMCKeyRequired},
		{errAnswer, bmc.Retry, bmc.ReasonProtocolError},
		{errors.New("anything"), bmc.Retry, bmc.ReasonProtocolError},
	} {
		got := b.explain("open session", c.err)
		if bmc.Class(got) != c.policy || bmc.Reason(got) != c.reason {
			t.Errorf("%v: %s %s, want %s %s", c.err, bmc.Class(got), bmc.Reason(got), c.policy, c.reason)
		}
	}
}
