package ipmi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
)

// Errors of the handshake that are decided upon.
var (
	// errCredentials: the BMC has another password than the one it was asked for.
	errCredentials = errors.New("the BMC proves another password")
	// errKey: BMC and console agree on the password, but not on the session's key, which K_G is part of.
	errKey = errors.New("the BMC proves another session key")
	// errSilentOpen: nothing came back to Open Session although the BMC answers otherwise.
	errSilentOpen = errors.New("no answer to Open Session")
	errAnswer     = errors.New("malformed answer")
)

// statusError is a status code of the BMC with the message that carried it.
type statusError struct {
	message string
	err     *types.RmcpStatusError
}

func (e *statusError) Error() string { return e.message + ": " + e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// handshake opens a session: Open Session, RAKP messages 1 to 4 (section 13.15).
type handshake struct {
	link     *link
	suite    suite
	username string
	password string
	key      string // K_G, empty for none
	role     uint8

	consoleID uint32
	bmcID     uint32
}

// rakpNameOnly asks the BMC to find the user by name alone, not by name and role (section 13.20).
const rakpNameOnly = 0x10

// run gives the session. A wrong password costs exactly one RAKP message 1 and shows in message 2, before anything
// derived from the password was sent, so that the BMC has no failed login to count.
func (h *handshake) run(ctx context.Context) (*session, error) {
	if err := h.open(ctx); err != nil {
		return nil, err
	}
	console := [16]byte(crypto.RandomBytes(16))
	kuid := crypto.PadPassword20([]byte(h.password))
	two, err := h.rakp1(ctx, console, kuid)
	if err != nil {
		return nil, err
	}
	// Section 13.31: the session integrity key is made with K_G, or with the user's key where K_G is null.
	kg := kuid
	if h.key != "" {
		kg = crypto.PadPassword20([]byte(h.key))
	}
	sik, k1, k2, err := crypto.DeriveSessionKeys(h.suite.authentication, console[:], two.ManagedSystemRandomNumber[:], h.role, h.username, kg)
	if err != nil {
		return nil, fmt.Errorf("session keys: %w", err)
	}
	if err := h.rakp3(ctx, two, console, kuid, sik); err != nil {
		return nil, err
	}
	return &session{suite: h.suite, keys: keys{integrity: k1, cipher: k2[:16]}, consoleID: h.consoleID, bmcID: h.bmcID}, nil
}

// open sends Open Session. It is sent again when lost; the BMC drops the half-open sessions that are not used.
func (h *handshake) open(ctx context.Context) error {
	h.consoleID = binary.LittleEndian.Uint32(crypto.RandomBytes(4)) | 1 // never 0, which is 'no session'
	h.link.tag++
	a, i, c := rmcpplus.NewAlgorithmPayloads(h.suite.authentication, h.suite.integrity, h.suite.encryption)
	request := rmcpplus.OpenSessionRequest{
		MessageTag:             h.link.tag,
		RemoteConsoleSessionID: h.consoleID,
		AuthenticationPayload:  a, IntegrityPayload: i, ConfidentialityPayload: c,
		// Privilege 0: the highest that the algorithms allow. What is needed is asked for in RAKP message 1.
	}
	payload, err := h.exchange(ctx, rmcp.PayloadOpenSessionRequest, request.Pack(), rmcp.PayloadOpenSessionResponse, h.link.attempts)
	if errors.Is(err, errNoAnswer) {
		return errSilentOpen
	}
	if err != nil {
		return err
	}
	var r rmcpplus.OpenSessionResponse
	if err := decode("open session response", &r, payload); err != nil {
		return err
	}
	if r.RemoteConsoleSessionID != h.consoleID || r.ManagedSystemSessionID == 0 {
		return fmt.Errorf("open session response for another session: %w", errAnswer)
	}
	if types.AuthAlg(r.AuthAlg) != h.suite.authentication || types.IntegrityAlg(r.IntegrityAlg) != h.suite.integrity ||
		types.CryptAlg(r.CryptAlg) != h.suite.encryption {
		// Nothing but what was asked for, or anyone on the path could turn encryption off.
		return fmt.Errorf("the BMC chose other algorithms than those of cipher suite %d: %w", h.suite.id, errAnswer)
	}
	h.bmcID = r.ManagedSystemSessionID
	return nil
}

// rakp1 sends RAKP message 1, once, and checks what message 2 proves. A BMC that gets it twice draws a second
// random number, and message 3 then fails as if the password were wrong.
//
// A message 2 that proves another password does not end the wait: anyone may have sent it, and the BMC's own
// may come yet.
func (h *handshake) rakp1(ctx context.Context, console [16]byte, kuid []byte) (*rmcpplus.RAKPMessage2, error) {
	h.link.tag++
	request := rmcpplus.RAKPMessage1{
		MessageTag:                     h.link.tag,
		ManagedSystemSessionID:         h.bmcID,
		RemoteConsoleRandomNumber:      console,
		RequestedMaximumPrivilegeLevel: types.PrivilegeLevel(h.role &^ rakpNameOnly),
		NameOnlyLookup:                 true,
		UsernameLength:                 uint8(len(h.username)),
		Username:                       []byte(h.username),
	}
	var two *rmcpplus.RAKPMessage2
	var refusal error
	err := h.exchangeUntil(ctx, rmcp.PayloadRAKP1, request.Pack(), rmcp.PayloadRAKP2, h.link.once(), func(payload []byte) bool {
		two, refusal = h.rakp2(payload, console, kuid)
		return !errors.Is(refusal, errCredentials)
	})
	switch {
	case refusal != nil:
		// No error status is sent, as ipmitool does: some BMCs count that as a failed login. The half-open
		// session ends by the BMC's own time-out.
		return nil, refusal
	case err != nil:
		return nil, fmt.Errorf("RAKP message 1: %w", err)
	}
	return two, nil
}

// rakp2 takes RAKP message 2 apart and checks that whoever sent it knows the password.
func (h *handshake) rakp2(payload []byte, console [16]byte, kuid []byte) (*rmcpplus.RAKPMessage2, error) {
	two := rmcpplus.RAKPMessage2{AuthAlg: h.suite.authentication}
	if err := decode("RAKP message 2", &two, payload); err != nil {
		return nil, err
	}
	if two.RemoteConsoleSessionID != h.consoleID {
		return nil, fmt.Errorf("RAKP message 2 for another session: %w", errAnswer)
	}
	proof, err := crypto.RAKP2AuthCode(h.suite.authentication, h.consoleID, h.bmcID, console[:], two.ManagedSystemRandomNumber[:],
		two.ManagedSystemGUID[:], h.role, h.username, kuid)
	if err != nil {
		return nil, fmt.Errorf("RAKP message 2: %w", err)
	}
	if !equal(proof, two.KeyExchangeAuthenticationCode) {
		return nil, errCredentials
	}
	return &two, nil
}

// rakp3 proves the password to the BMC and checks its answer, once.
func (h *handshake) rakp3(ctx context.Context, two *rmcpplus.RAKPMessage2, console [16]byte, kuid, sik []byte) error {
	h.link.tag++
	proof, err := crypto.RAKP3AuthCode(h.suite.authentication, two.ManagedSystemRandomNumber[:], h.consoleID, h.role, h.username, kuid)
	if err != nil {
		return fmt.Errorf("RAKP message 3: %w", err)
	}
	request := rmcpplus.RAKPMessage3{
		MessageTag:                    h.link.tag,
		ManagedSystemSessionID:        h.bmcID,
		KeyExchangeAuthenticationCode: proof,
	}
	payload, err := h.exchange(ctx, rmcp.PayloadRAKP3, request.Pack(), rmcp.PayloadRAKP4, h.link.once())
	if err != nil {
		return fmt.Errorf("RAKP message 3: %w", err)
	}
	four := rmcpplus.RAKPMessage4{AuthAlg: h.suite.authentication}
	if err := decode("RAKP message 4", &four, payload); err != nil {
		return err
	}
	if four.MgmtConsoleSessionID != h.consoleID {
		return fmt.Errorf("RAKP message 4 for another session: %w", errAnswer)
	}
	check, err := crypto.RAKP4ICV(h.suite.authentication, console[:], h.bmcID, two.ManagedSystemGUID[:], sik)
	if err != nil {
		return fmt.Errorf("RAKP message 4: %w", err)
	}
	if !equal(check, four.IntegrityCheckValue) {
		return fmt.Errorf("RAKP message 4 has another integrity check value: %w", errKey)
	}
	return nil
}

// exchange sends a handshake message and waits for the answer with the same message tag.
func (h *handshake) exchange(ctx context.Context, kind uint8, payload []byte, answer uint8, waits waits) ([]byte, error) {
	var got []byte
	err := h.exchangeUntil(ctx, kind, payload, answer, waits, func(b []byte) bool { got = bytes.Clone(b); return true })
	return got, err
}

// exchangeUntil does the same and waits on while accept, given the answer, says false.
func (h *handshake) exchangeUntil(ctx context.Context, kind uint8, payload []byte, answer uint8, waits waits, accept func([]byte) bool) error {
	packet, err := rmcp.EncodePlus(rmcp.Packet{Plus: true, PayloadType: kind, Payload: payload}, nil)
	if err != nil {
		return err
	}
	return h.link.exchange(ctx, waits, func() ([]byte, error) { return packet, nil }, func(b []byte) bool {
		p, err := rmcp.Decode(b)
		if err != nil || !p.Plus || p.PayloadType != answer || p.SessionID != 0 || p.Encrypted ||
			len(p.Payload) < handshakeHead || p.Payload[0] != h.link.tag {
			return false
		}
		return accept(p.Payload)
	})
}

// handshakeHead is what all answers begin with: message tag and status code. With a status other than 0 that may be all:
// OpenIPMI's simulator, for one, leaves out the session ID of table 13-10.
const handshakeHead = 2

// decode takes an answer apart, or gives the status code that it carries instead of contents.
func decode(name string, m interface{ Unpack([]byte) error }, b []byte) error {
	if status := types.RmcpStatusCode(b[1]); status != types.RmcpStatusCodeNoErrors {
		return &statusError{name, types.NewRmcpStatusError(status)}
	}
	if err := unpack(m, b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// unpack decodes a message by go-ipmi. Its decoders index without checking in places, so a panic is an
// error of the message here.
func unpack(m interface{ Unpack([]byte) error }, b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w of %d bytes", errAnswer, len(b))
		}
	}()
	return m.Unpack(b)
}
