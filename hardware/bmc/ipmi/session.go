package ipmi

import (
	"context"
	"errors"
	"fmt"

	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
)

// session is an active RMCP+ session. It is used by one goroutine at a time.
type session struct {
	suite     suite
	keys      keys
	consoleID uint32
	bmcID     uint32

	sent     uint32 // last session sequence number that was sent
	window   replayWindow
	sequence uint8 // rqSeq of the last request
}

// roundTrip sends a request and waits for its response. An attempt that is repeated keeps the request's rqSeq and gets
// a new session sequence number (section 6.12.8), so the BMC can tell a repetition from a replay.
func (s *session) roundTrip(ctx context.Context, l *link, waits waits, q rmcp.Request) (rmcp.Response, error) {
	s.sequence = (s.sequence + 1) & 0x3f
	q.Sequence = s.sequence
	var got rmcp.Response
	err := l.exchange(ctx, waits, func() ([]byte, error) { return s.seal(q.Encode()) }, func(b []byte) bool {
		plain, err := s.unseal(b)
		if err != nil {
			return false
		}
		r, err := rmcp.DecodeResponse(plain)
		if err != nil || !r.Answers(q) {
			return false
		}
		got = r
		return true
	})
	return got, err
}

// seal makes the packet for a message: encrypted, numbered and authenticated.
func (s *session) seal(message []byte) ([]byte, error) {
	if s.sent == ^uint32(0) {
		return nil, errors.New("session sequence numbers are used up")
	}
	payload, err := s.suite.encrypt(s.keys, message)
	if err != nil {
		return nil, err
	}
	s.sent++
	return rmcp.EncodePlus(rmcp.Packet{
		Plus: true, PayloadType: rmcp.PayloadIPMI, Encrypted: true,
		SessionID: s.bmcID, Sequence: s.sent, Payload: payload,
	}, func(covered []byte) ([]byte, error) { return s.suite.sign(s.keys, covered) })
}

// unseal is the reverse. Authenticity is checked before anything else is believed.
func (s *session) unseal(b []byte) ([]byte, error) {
	p, err := rmcp.Decode(b)
	if err != nil {
		return nil, err
	}
	if !p.Plus || p.PayloadType != rmcp.PayloadIPMI || p.SessionID != s.consoleID || !p.Authenticated || !p.Encrypted {
		return nil, errors.New("not a packet of this session")
	}
	covered, code, err := p.Signed(s.suite.codeLength)
	if err != nil {
		return nil, err
	}
	want, err := s.suite.sign(s.keys, covered)
	if err != nil {
		return nil, err
	}
	if !equal(want, code) {
		return nil, errors.New("wrong integrity code")
	}
	if err := s.window.accept(p.Sequence); err != nil {
		return nil, err
	}
	plain, err := s.suite.decrypt(s.keys, p.Payload)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return plain, nil
}
