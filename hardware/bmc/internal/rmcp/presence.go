package rmcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// asfIANA is the enterprise number of the Alert Standard Forum.
const asfIANA = 4542

const (
	asfPresencePing = 0x80
	asfPresencePong = 0x40

	netFnApp                  = 0x06
	commandAuthCapabilities   = 0x38
	channelOfRequest          = 0x0e
	extendedCapabilities      = 0x80
	privilegeAdministrator    = 0x04
	capabilityExtended        = 0x80
	capabilityIPMI20          = 0x02
	supportedEntitiesIPMI     = 0x80
	authCapabilitiesMinLength = 8
)

// PresencePing asks whether RMCP is spoken at all (section 13.2.3). The tag comes back.
func PresencePing(tag uint8) []byte {
	p := []byte{rmcpVersion, 0, rmcpNoAck, classASF, 0, 0, 0, 0, asfPresencePing, tag, 0, 0}
	binary.BigEndian.PutUint32(p[4:], asfIANA)
	return p
}

// DecodePresencePong says whether a pong announces IPMI (table 13-6).
func DecodePresencePong(b []byte, tag uint8) (ipmi bool, err error) {
	if len(b) < 28 {
		return false, fmt.Errorf("presence pong of %d bytes: %w", len(b), errShort)
	}
	if b[0] != rmcpVersion || b[3] != classASF || binary.BigEndian.Uint32(b[4:]) != asfIANA ||
		b[8] != asfPresencePong || b[9] != tag {
		return false, errors.New("not the awaited presence pong")
	}
	return b[20]&supportedEntitiesIPMI != 0, nil
}

// AuthCapabilitiesRequest is Get Channel Authentication Capabilities (section 22.13), the one command that a
// BMC answers to everybody. It costs no session and counts as no attempt to log in.
func AuthCapabilitiesRequest(sequence uint8) Request {
	return Request{
		NetFn:    netFnApp,
		Command:  commandAuthCapabilities,
		Sequence: sequence & 0x3f,
		Data:     []byte{channelOfRequest | extendedCapabilities, privilegeAdministrator},
	}
}

// DecodeAuthCapabilities says whether a datagram is the answer to the request, and whether the BMC accepts
// IPMI v2.0 sessions.
func DecodeAuthCapabilities(b []byte, q Request) (ipmi20 bool, err error) {
	p, err := Decode(b)
	if err != nil {
		return false, err
	}
	if p.SessionID != 0 || p.Encrypted || p.PayloadType != PayloadIPMI {
		return false, errors.New("not a session-less IPMI packet")
	}
	r, err := DecodeResponse(p.Payload)
	if err != nil {
		return false, err
	}
	if !r.Answers(q) {
		return false, errors.New("not the awaited response")
	}
	if r.CompletionCode != 0 {
		// A BMC that refuses this command still is one.
		return false, nil
	}
	if len(r.Data) < authCapabilitiesMinLength {
		return false, fmt.Errorf("authentication capabilities of %d bytes: %w", len(r.Data), errShort)
	}
	return r.Data[1]&capabilityExtended != 0 && r.Data[3]&capabilityIPMI20 != 0, nil
}
