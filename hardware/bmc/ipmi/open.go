package ipmi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
	"regiond.dev/regiond/region"
)

// ensureSession opens a session unless one is open. Refused credentials are not tried again by this BMC value, for
// most BMCs lock a user out after a few failed logins: who wants to try again makes another one.
func (b *BMC) ensureSession(ctx context.Context) error {
	if b.session != nil {
		return nil
	}
	if b.refused != nil {
		return b.refused
	}
	if err := b.sleep(ctx, b.c.SessionInterval-b.c.Clock.Since(b.lastOpen)); err != nil {
		return err
	}
	b.lastOpen = b.c.Clock.Now()
	err := b.openSession(ctx)
	if err != nil {
		b.drop()
		if e := b.explain("open session", err); bmc.Refused(e) {
			b.refused = e
			return e
		}
	}
	return err
}

func (b *BMC) openSession(ctx context.Context) error {
	l, err := dial(ctx, b.c.Address, attemptWaits(b.c.Timeout, b.c.Attempts), b.c.Dropped)
	if err != nil {
		return err
	}
	b.link = l
	// A BMC that does not even answer this is silent; the wait for each cipher suite is saved.
	if err := b.present(ctx); err != nil {
		return err
	}
	s, err := b.negotiate(ctx)
	if err != nil {
		return err
	}
	b.session, b.suite = s, s.suite.id
	b.log.Debug("session opened", slog.Int("cipherSuite", int(s.suite.id)))
	if err := b.raisePrivilege(ctx); err != nil {
		// The refusal is the error that matters.
		_ = b.endSession(ctx)
		return err
	}
	return nil
}

// attemptWaits doubles the wait from attempt to attempt.
func attemptWaits(first time.Duration, attempts int) waits {
	w := make(waits, attempts)
	for i := range w {
		w[i] = first << i
	}
	return w
}

// present asks for the authentication capabilities, outside of any session. The answer's content is not used:
// BMCs are known to deny IPMI v2.0 there and to accept it.
func (b *BMC) present(ctx context.Context) error {
	q := rmcp.AuthCapabilitiesRequest(1)
	packet := rmcp.Encode15(q.Encode())
	return b.link.exchange(ctx, b.link.attempts, func() ([]byte, error) { return packet, nil }, func(a []byte) bool {
		_, err := rmcp.DecodeAuthCapabilities(a, q)
		return err == nil
	})
}

// handshakeAttempts bounds how often a handshake is started again whose messages were lost. They are not repeated
// within a handshake, see rakp1.
const handshakeAttempts = 3

// negotiate tries the suite that worked last, then the others. Another suite is tried only when the BMC's answer is
// about the suite; a refused password ends it at once.
func (b *BMC) negotiate(ctx context.Context) (*session, error) {
	order := slices.Clone(suites)
	slices.SortStableFunc(order, func(x, y types.CipherSuiteID) int {
		return boolInt(y == b.suite) - boolInt(x == b.suite)
	})
	var last, privilege error
	for _, id := range order {
		s, err := suiteOf(id)
		if err != nil {
			return nil, err
		}
		for attempt := range handshakeAttempts {
			session, err := b.handshake(s).run(ctx)
			if err == nil {
				return session, nil
			}
			last = fmt.Errorf("cipher suite %d: %w", id, err)
			if ctx.Err() != nil || !errors.Is(err, errNoAnswer) || attempt == handshakeAttempts-1 {
				break
			}
		}
		if ctx.Err() != nil || !aboutSuite(last) {
			return nil, last
		}
		if bmc.Reason(b.explain("", last)) == region.ReasonPrivilegeInsufficient {
			privilege = last
		}
		b.log.Debug("cipher suite not accepted", slog.Int("cipherSuite", int(id)), slog.Any("error", last))
	}
	// 'Privilege too low' for one suite says more than 'unknown' for the other.
	return nil, cmp.Or(privilege, last)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (b *BMC) handshake(s suite) *handshake {
	return &handshake{
		link: b.link, suite: s, username: b.c.Username, password: b.c.Password, key: b.c.Key,
		role: uint8(b.c.Privilege) | rakpNameOnly,
	}
}

// aboutSuite says whether another cipher suite may do better. Roles and privileges are among the reasons, for each
// suite has its own privilege limit (LAN parameter 24) and old BMCs answer unknown suites with 'invalid role'.
// Silence is one too: some BMCs drop an Open Session whose algorithms they do not know.
func aboutSuite(err error) bool {
	if errors.Is(err, errSilentOpen) {
		return true
	}
	status := (*types.RmcpStatusError)(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch status.StatusCode() {
	case types.RmcpStatusCodeInvalidPayloadType,
		types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg, types.RmcpStatusCodeInvalidConfidentAlg,
		types.RmcpStatusCodeNoMatchingAuthPayload, types.RmcpStatusCodeNoMatchingIntegrityPayload,
		types.RmcpStatusCodeNoCipherSuiteMatch, types.RmcpStatusCodeIllegalParameter,
		types.RmcpStatusCodeInvalidRole, types.RmcpStatusCodeUnauthorizedRoleOfPriLevel:
		return true
	}
	return false
}

// raisePrivilege asks for the privilege that the commands need: sessions start as USER (section 22.18).
func (b *BMC) raisePrivilege(ctx context.Context) error {
	request := app.SetSessionPrivilegeLevelRequest{PrivilegeLevel: b.c.Privilege}
	err := b.command(ctx, &request, &app.SetSessionPrivilegeLevelResponse{})
	switch {
	case errors.Is(err, types.CodeSetSessionPrivilegeLevelLevelNotAvailable),
		errors.Is(err, types.CodeSetSessionPrivilegeLevelExceedsLimit):
		// 0x80 and 0x81 mean this only for this command.
		return fmt.Errorf("%w: %w", errPrivilege, err)
	}
	return err
}
