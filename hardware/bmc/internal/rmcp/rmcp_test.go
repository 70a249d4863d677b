package rmcp_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes that ipmitool 1.8.19 sends for Get Channel Authentication Capabilities.
func TestAuthCapabilitiesOnTheWire(t *testing.T) {
	got := rmcp.Encode15(rmcp.AuthCapabilitiesRequest(0).Encode())
	want := unhex(t, "0600ff07"+"00"+"00000000"+"00000000"+"09"+"2018c881"+"00388e04"+"b5")
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestPresencePingOnTheWire(t *testing.T) {
	if got, want := rmcp.PresencePing(7), unhex(t, "0600ff06"+"000011be"+"80070000"); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	pong := unhex(t, "0600ff06"+"000011be"+"40070010"+"000011be"+"00000000"+"8100000000000000")
	if ipmi, err := rmcp.DecodePresencePong(pong, 7); err != nil || !ipmi {
		t.Error(ipmi, err)
	}
	if _, err := rmcp.DecodePresencePong(pong, 8); err == nil {
		t.Error("a pong to another ping was accepted")
	}
}

func TestSignedPacketRoundTrip(t *testing.T) {
	for length := range 40 {
		payload := bytes.Repeat([]byte{0xaa}, length)
		code := []byte("twelve bytes")
		var covered []byte
		b, err := rmcp.EncodePlus(rmcp.Packet{Plus: true, Encrypted: true, SessionID: 0x01020304, Sequence: 9, Payload: payload},
			func(c []byte) ([]byte, error) { covered = bytes.Clone(c); return code, nil })
		if err != nil {
			t.Fatal(err)
		}
		if len(covered)%4 != 0 {
			t.Errorf("payload of %d bytes: %d bytes are covered, no multiple of four", length, len(covered))
		}
		p, err := rmcp.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		gotCovered, gotCode, err := p.Signed(len(code))
		if err != nil || !bytes.Equal(gotCovered, covered) || !bytes.Equal(gotCode, code) {
			t.Errorf("payload of %d bytes: %v", length, err)
		}
		if !bytes.Equal(p.Payload, payload) || p.SessionID != 0x01020304 || p.Sequence != 9 || !p.Authenticated || !p.Encrypted {
			t.Errorf("%+v", p)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(unhex(f, "0600ff070611000000000000000002000704"), 12)
	f.Add(unhex(f, "0600ff0706c0a0a1a2a3010000000000"), 16)
	f.Add(rmcp.Encode15(rmcp.AuthCapabilitiesRequest(1).Encode()), 0)
	f.Add(unhex(f, "0600ff06000011be40070010000011be000000008100000000000000"), 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, codeLength int) {
		q := rmcp.AuthCapabilitiesRequest(1)
		_, err := rmcp.DecodeAuthCapabilities(b, q)
		_ = err // any verdict will do: it must not panic
		_, err = rmcp.DecodePresencePong(b, 7)
		_ = err
		p, err := rmcp.Decode(b)
		if err != nil {
			return
		}
		if len(p.Payload) > len(b) {
			t.Errorf("payload of %d bytes in a packet of %d", len(p.Payload), len(b))
		}
		if codeLength >= 0 {
			if _, code, err := p.Signed(codeLength); err == nil && len(code) != codeLength {
				t.Errorf("code of %d bytes, want %d", len(code), codeLength)
			}
		}
		if r, err := rmcp.DecodeResponse(p.Payload); err == nil && len(r.Data) > len(p.Payload) {
			t.Error("response longer than its packet")
		}
	})
}
