// Package rmcp frames IPMI messages for the LAN: the RMCP header, the session headers of IPMI v1.5
// and v2.0 (RMCP+), the IPMI LAN message and the ASF presence ping. It is pure: bytes in, values out.
//
// go-ipmi's own framing (pkg/client v0.9.1) is not used. It decrypts packets before, and without,
// checking their integrity code, and panics on malformed ones (ciphertext that is not a multiple of 16
// bytes, pad length beyond the packet) in a goroutine of its own, where no caller can recover: one
// forged datagram would end regiond. Section numbers are those of IPMI v2.0 rev 1.1.
package rmcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxPacket is the most that is read of a datagram. The largest IPMI response over LAN is well
// below an Ethernet frame.
const MaxPacket = 2048

// Payload types of RMCP+ (table 13-16).
const (
	PayloadIPMI                = 0x00
	PayloadOpenSessionRequest  = 0x10
	PayloadOpenSessionResponse = 0x11
	PayloadRAKP1               = 0x12
	PayloadRAKP2               = 0x13
	PayloadRAKP3               = 0x14
	PayloadRAKP4               = 0x15
)

const (
	rmcpVersion  = 0x06
	rmcpNoAck    = 0xff // section 13.1.3: IPMI uses no RMCP acknowledgements
	classASF     = 0x06
	classIPMI    = 0x07
	formatRMCP20 = 0x06 // AuthType/Format of section 13.6

	flagEncrypted     = 0x80
	flagAuthenticated = 0x40

	payloadOEMExplicit = 0x02

	headerLength   = 4
	plusHeader     = 12
	nextHeaderIPMI = 0x07 // section 13.6: reserved value of the trailer
)

// Packet is one IPMI datagram. Plain v1.5 packets are only used outside of sessions.
type Packet struct {
	// Plus is set for RMCP+ (IPMI v2.0).
	Plus          bool
	PayloadType   uint8
	Encrypted     bool
	Authenticated bool
	SessionID     uint32
	Sequence      uint32
	Payload       []byte

	raw []byte // the whole datagram, for Signed
}

// Encode15 is a session-less IPMI v1.5 packet. Get Channel Authentication Capabilities is sent in
// this form first (section 13.14): some BMCs do not answer it inside of RMCP+.
func Encode15(payload []byte) []byte {
	p := make([]byte, 0, headerLength+10+len(payload))
	p = append(p, rmcpVersion, 0, rmcpNoAck, classIPMI)
	p = append(p, 0)          // authentication type: none
	p = append(p, 0, 0, 0, 0) // session sequence number
	p = append(p, 0, 0, 0, 0) // session ID
	p = append(p, uint8(len(payload)))
	return append(p, payload...)
}

// EncodePlus is an RMCP+ packet. With a sign function the packet is marked authenticated and gets
// a session trailer; sign is given what the integrity code covers (section 13.28.4).
func EncodePlus(p Packet, sign func([]byte) ([]byte, error)) ([]byte, error) {
	kind := p.PayloadType & 0x3f
	if p.Encrypted {
		kind |= flagEncrypted
	}
	if sign != nil {
		kind |= flagAuthenticated
	}
	b := make([]byte, 0, headerLength+plusHeader+len(p.Payload)+24)
	b = append(b, rmcpVersion, 0, rmcpNoAck, classIPMI, formatRMCP20, kind)
	b = binary.LittleEndian.AppendUint32(b, p.SessionID)
	b = binary.LittleEndian.AppendUint32(b, p.Sequence)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Payload)))
	b = append(b, p.Payload...)
	if sign == nil {
		return b, nil
	}
	// The pad makes the covered range, with pad length and next header, a multiple of four.
	pad := (4 - (len(b)-headerLength+2)%4) % 4
	for range pad {
		b = append(b, 0xff)
	}
	b = append(b, uint8(pad), nextHeaderIPMI)
	code, err := sign(b[headerLength:])
	if err != nil {
		return nil, err
	}
	return append(b, code...), nil
}

// Decode takes a datagram apart. The payload is a part of the datagram, not a copy.
func Decode(b []byte) (Packet, error) {
	if len(b) < headerLength+1 {
		return Packet{}, fmt.Errorf("packet of %d bytes: %w", len(b), errShort)
	}
	if b[0] != rmcpVersion {
		return Packet{}, fmt.Errorf("RMCP version 0x%02x, not 0x06", b[0])
	}
	if b[3] != classIPMI {
		return Packet{}, fmt.Errorf("RMCP class 0x%02x is not IPMI", b[3])
	}
	if b[4] == formatRMCP20 {
		return decodePlus(b)
	}
	return decode15(b)
}

func decodePlus(b []byte) (Packet, error) {
	if len(b) < headerLength+plusHeader {
		return Packet{}, fmt.Errorf("RMCP+ packet of %d bytes: %w", len(b), errShort)
	}
	p := Packet{
		Plus:          true,
		PayloadType:   b[5] & 0x3f,
		Encrypted:     b[5]&flagEncrypted != 0,
		Authenticated: b[5]&flagAuthenticated != 0,
		SessionID:     binary.LittleEndian.Uint32(b[6:]),
		Sequence:      binary.LittleEndian.Uint32(b[10:]),
		raw:           b,
	}
	if p.PayloadType == payloadOEMExplicit {
		// It has a longer header (table 13-8) and nothing here asked for it.
		return Packet{}, errors.New("RMCP+ packet with an OEM payload")
	}
	length := int(binary.LittleEndian.Uint16(b[14:]))
	if length > len(b)-headerLength-plusHeader {
		return Packet{}, fmt.Errorf("RMCP+ payload length %d exceeds the packet of %d bytes", length, len(b))
	}
	p.Payload = b[headerLength+plusHeader:][:length]
	return p, nil
}

func decode15(b []byte) (Packet, error) {
	const fixed = headerLength + 10
	if b[4] != 0 {
		return Packet{}, fmt.Errorf("IPMI v1.5 authentication type 0x%02x outside of a session", b[4])
	}
	if len(b) < fixed {
		return Packet{}, fmt.Errorf("IPMI v1.5 packet of %d bytes: %w", len(b), errShort)
	}
	length := int(b[13])
	if length > len(b)-fixed {
		return Packet{}, fmt.Errorf("IPMI v1.5 payload length %d exceeds the packet of %d bytes", length, len(b))
	}
	return Packet{
		Sequence:  binary.LittleEndian.Uint32(b[5:]),
		SessionID: binary.LittleEndian.Uint32(b[9:]),
		Payload:   b[fixed:][:length],
		raw:       b,
	}, nil
}

// Signed splits an authenticated RMCP+ packet into what its integrity code covers and the code
// itself, which has the given length. The pad bytes are part of what is covered; their value is
// not checked, for BMCs are known to pad with zeros.
func (p Packet) Signed(codeLength int) (covered, code []byte, err error) {
	end := len(p.raw) - codeLength
	if !p.Plus || end < headerLength+plusHeader+len(p.Payload)+2 {
		return nil, nil, fmt.Errorf("RMCP+ packet of %d bytes has no room for its integrity code", len(p.raw))
	}
	return p.raw[headerLength:end], p.raw[end:], nil
}
