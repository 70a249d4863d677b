package ipmi

import (
	"context"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
)

// errPrivilege: the user may log in but not do what is needed.
var errPrivilege = errors.New("the user's privilege limit is too low")

// explain turns an error of the layers below into one that says what, where and what to do.
func (b *BMC) explain(operation string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*bmc.Error)(nil); errors.As(err, &e) {
		return err
	}
	status := (*types.RmcpStatusError)(nil)
	code := types.CompletionCode(0)
	switch {
	case errors.Is(err, errCredentials):
		return b.fail(bmc.Terminal, region.ReasonAuthenticationFailed, operation, "user name or password refused", credentialsAdvice, nil)
	case errors.Is(err, errPrivilege):
		return b.privilege(bmc.Terminal, operation, err)
	case errors.Is(err, errKey) && b.c.Key == "":
		return b.fail(bmc.Retry, region.ReasonBMCKeyRequired, operation, "the BMC wants a BMC key (K_G) beside the password",
			"add bmcKey to the credentials file, or clear the key on the BMC", err)
	case errors.Is(err, errKey):
		return b.fail(bmc.Retry, region.ReasonBMCKeyRefused, operation, "the BMC has another BMC key (K_G) than the credentials, or none",
			"correct bmcKey in the credentials file; leave it out for a BMC without a key", err)
	case errors.As(err, &status):
		return b.status(operation, reasonOfStatus(status.StatusCode()), err)
	case errors.As(err, &code):
		policy, reason := classOfCompletionCode(code)
		if reason == region.ReasonPrivilegeInsufficient {
			return b.privilege(policy, operation, err)
		}
		return b.fail(policy, reason, operation, "the BMC refused the command", "", err)
	case errors.Is(err, errRefused):
		return b.fail(bmc.Retry, region.ReasonUnreachable, operation, "the BMC cannot be reached", "check address, port and route, and that IPMI over LAN is enabled", err)
	case errors.Is(err, errNoAnswer), errors.Is(err, errSilentOpen):
		return b.fail(bmc.Retry, region.ReasonNoAnswer, operation, "the BMC does not answer", "check power and network of the BMC and that IPMI over LAN is enabled", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return b.fail(bmc.Retry, region.ReasonNoAnswer, operation, "cut off before the BMC was done", "", err)
	}
	return b.fail(bmc.Retry, region.ReasonProtocolError, operation, "the BMC answered what IPMI v2.0 does not allow", "", err)
}

const credentialsAdvice = "correct the credentials; until they change they are tried again at long intervals only, to avoid a lock-out"

// status explains a session that was refused before anything was authenticated.
func (b *BMC) status(operation, reason string, err error) error {
	switch reason {
	case region.ReasonAuthenticationFailed:
		return b.fail(bmc.Retry, reason, operation, "user name refused", "correct the user name, or enable the user on the BMC", err)
	case region.ReasonPrivilegeInsufficient:
		return b.privilege(bmc.Retry, operation, err)
	case region.ReasonSessionsExhausted:
		return b.fail(bmc.Retry, reason, operation, "all sessions of the BMC are in use", "end other IPMI clients; lost sessions end by themselves after a minute", err)
	case region.ReasonUnsupportedByBMC:
		return b.fail(bmc.Retry, reason, operation, "the BMC accepts neither cipher suite 17 nor 3", "enable one of them on the BMC (LAN parameter 24)", err)
	}
	return b.fail(bmc.Retry, reason, operation, "the BMC refused the session", "", err)
}

func (b *BMC) privilege(policy bmc.Policy, operation string, err error) error {
	return b.fail(policy, region.ReasonPrivilegeInsufficient, operation,
		fmt.Sprintf("the user may not act as %s", b.c.Privilege), "raise the user's privilege limit for the LAN channel on the BMC", err)
}

func (b *BMC) fail(policy bmc.Policy, reason, operation, detail, advice string, err error) error {
	return &bmc.Error{
		Policy: policy, Reason: reason, Address: b.c.Address, Username: b.c.Username,
		Operation: operation, Detail: detail, Advice: advice, Err: err,
	}
}
