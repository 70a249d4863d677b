package ipmi

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/command/storage"
	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

// A peer that answers everything with the fuzzer's bytes, and with the fuzzer's bytes as the answer's payload, must neither
// crash nor hold up the driver.
func FuzzHostilePeer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x06, 0x00, 0xff, 0x07, 0x06})
	f.Add([]byte{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 8, 4, 0, 0, 0, 2, 0, 0, 8, 1, 0, 0, 0})
	f.Add(make([]byte, 1400))
	f.Fuzz(func(t *testing.T, fuzz []byte) {
		if len(fuzz) > 8000 {
			return
		}
		conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			hostile(conn, fuzz)
		}()
		defer func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			<-done
		}()
		b, err := New(Config{
			Target:          bmc.Target{Address: conn.LocalAddr().(*net.UDPAddr).AddrPort(), Username: "u", Password: "p"},
			CommandInterval: time.Microsecond, SessionInterval: time.Microsecond, Timeout: 2 * time.Millisecond, Attempts: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if state, err := b.Power(ctx); err == nil {
			t.Errorf("power %s from a peer that knows no password", state)
		}
		if ctx.Err() != nil {
			t.Error("the driver was held up")
		}
		if err := b.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// hostile answers until its socket is closed.
func hostile(conn net.PacketConn, fuzz []byte) {
	buf := make([]byte, rmcp.MaxPacket)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		answers := [][]byte{fuzz}
		if p, err := rmcp.Decode(buf[:n]); err == nil && !p.Plus {
			// Let the presence question pass, so that the handshake is reached.
			answers = append(answers, rmcp.Encode15(response(p.Payload, 0, []byte{1, 0x80, 0, 2, 0, 0, 0, 0})))
		} else if err == nil {
			// The answer's type, the request's tag and console session, and then the fuzzer's bytes.
			body := append([]byte{}, fuzz...)
			if len(body) >= 8 && len(p.Payload) >= 8 {
				body[0], body[1] = p.Payload[0], 0
				copy(body[4:8], p.Payload[4:8])
			}
			if packet, err := rmcp.EncodePlus(rmcp.Packet{Plus: true, PayloadType: p.PayloadType + 1, Payload: body[:min(len(body), math.MaxUint16)]}, nil); err == nil {
				answers = append(answers, packet)
			}
		}
		for _, a := range answers {
			if _, err := conn.WriteTo(a, from); err != nil {
				break // too long for a datagram
			}
		}
	}
}

// response is an IPMI response message to a request message.
func response(request []byte, code uint8, data []byte) []byte {
	m := []byte{request[3], request[1] | 4, 0, request[0], request[4], request[5], code}
	m[2] = -(m[0] + m[1])
	m = append(m, data...)
	return append(m, -zeroSum(m[3:]))
}

// An authentic peer, which has the keys, sends nonsense.
func FuzzAuthenticPacket(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(make([]byte, 16), false)
	f.Add(make([]byte, 33), false)
	f.Add([]byte{0x81, 0x1c, 0x63, 0x20, 0x04, 0x01, 0x00, 0xdb}, true)
	f.Add(make([]byte, 64), true)
	f.Fuzz(func(t *testing.T, fuzz []byte, encrypt bool) {
		for _, id := range suites {
			s, err := suiteOf(id)
			if err != nil {
				t.Fatal(err)
			}
			k := keys{integrity: crypto.RandomBytes(20), cipher: crypto.RandomBytes(16)}
			ours := &session{suite: s, keys: k, consoleID: 1, bmcID: 2}
			payload := fuzz[:min(len(fuzz), 1000)]
			if encrypt {
				if payload, err = s.encrypt(k, payload); err != nil {
					t.Fatal(err)
				}
			}
			packet, err := rmcp.EncodePlus(rmcp.Packet{Plus: true, Encrypted: true, SessionID: 1, Sequence: 1, Payload: payload},
				func(c []byte) ([]byte, error) { return s.sign(k, c) })
			if err != nil {
				t.Fatal(err)
			}
			plain, err := ours.unseal(packet)
			if encrypt && (err != nil || string(plain) != string(fuzz[:min(len(fuzz), 1000)])) {
				t.Errorf("suite %d: round trip gives %x, %v", id, plain, err)
			}
			if err == nil {
				_, err = rmcp.DecodeResponse(plain)
				_ = err // any verdict will do
			}
			if _, err := ours.unseal(packet); err == nil {
				t.Error("a packet was accepted twice")
			}
			packet[len(packet)-1] ^= 1
			if _, err := (&session{suite: s, keys: k, consoleID: 1}).unseal(packet); err == nil {
				t.Error("a packet with a wrong integrity code was accepted")
			}
		}
	})
}

// Everything that is decoded of a response must survive any bytes.
func FuzzResponses(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte{1, 5, 0xa0, 4, 0, 0, 0})
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range []interface{ Unpack([]byte) error }{
			&app.GetDeviceIDResponse{}, &app.GetSystemGUIDResponse{}, &app.SetSessionPrivilegeLevelResponse{},
			&chassis.GetChassisStatusResponse{}, &chassis.GetSystemBootOptionsParamResponse{}, &types.BootOptionParam_BootFlags{},
			&storage.GetFRUInventoryAreaInfoResponse{}, &storage.ReadFRUDataResponse{},
			&rmcpplus.OpenSessionResponse{}, &rmcpplus.RAKPMessage2{AuthAlg: types.AuthAlg_HMAC_SHA256}, &rmcpplus.RAKPMessage4{AuthAlg: types.AuthAlg_HMAC_SHA1},
		} {
			err := unpack(r, data)
			_ = err // any verdict will do
		}
	})
}

func FuzzFRU(f *testing.F) {
	inventory, err := types.PackFRU(types.FRUPackConfig{Product: &types.FRUPackProduct{Manufacturer: "M", Name: "Name", Serial: "S1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(inventory)
	f.Add(inventory[8:])
	f.Add([]byte{1, 1, 0, 0xc1})
	f.Add([]byte{1, 0xff, 5, 0xff, 0x7f, 0x80, 0x40, 0x00, 0xc3, 0xd8, 0x00, 0xd8})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := decodeFRUHeader(b)
		_ = err
		for _, decode := range []func([]byte) (fruArea, error){decodeChassisArea, decodeBoardArea, decodeProductArea} {
			area, err := decode(b)
			_ = err
			for _, s := range []string{area.manufacturer, area.name, area.serial, area.assetTag} {
				for _, r := range s {
					if r < ' ' {
						t.Errorf("control character %q in %q", r, s)
					}
				}
			}
		}
	})
}

// Any command with any data, from a logged-in administrator, must leave the virtual BMC alive.
func FuzzCommands(f *testing.F) {
	f.Add(uint8(0x06), uint8(0x01), []byte{})
	f.Add(uint8(0x00), uint8(0x02), []byte{0x02})
	f.Add(uint8(0x00), uint8(0x08), []byte{0x05, 0x80})
	f.Add(uint8(0x0a), uint8(0x11), []byte{0, 0xff, 0xff, 0xff})
	f.Add(uint8(0x0a), uint8(0x43), []byte{0, 0, 0, 0, 0xff, 0xff})
	f.Add(uint8(0x06), uint8(0x47), []byte{0x02, 0x02})
	f.Add(uint8(0x06), uint8(0x48), []byte{0x01, 0x01, 0, 0, 0, 0})
	f.Add(uint8(0x06), uint8(0x3c), []byte{0, 0, 0, 0, 0})
	f.Add(uint8(0x04), uint8(0x2d), []byte{})
	f.Fuzz(func(t *testing.T, netFn, command uint8, data []byte) {
		if len(data) > 200 {
			return
		}
		s := bmctest.Start(t)
		b, err := New(Config{
			Target:          bmc.Target{Address: s.Address, Username: bmctest.Username, Password: bmctest.Password},
			CommandInterval: time.Microsecond, SessionInterval: time.Microsecond, Timeout: 20 * time.Millisecond, Attempts: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Raw(t.Context(), netFn&0x3e, command, data)
		_ = err // any answer, also none when the command ended the session
		if err := b.Close(t.Context()); err != nil {
			t.Logf("close: %v", err)
		}
		if _, err := bmc.Ping(t.Context(), s.Address); err != nil {
			t.Error(err)
		}
		if n := s.Panics(); n != 0 {
			t.Logf("netFn %#x command %#x data %x: handler panicked", netFn&0x3e, command, data)
		}
	})
}

func TestReplayWindow(t *testing.T) {
	var w replayWindow
	for _, step := range []struct {
		sequence uint32
		ok       bool
	}{{0, false}, {1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {40, true}, {24, false}, {25, true}, {25, false}, {39, true}, {1 << 31, true}, {40, false}} {
		if err := w.accept(step.sequence); (err == nil) != step.ok {
			t.Errorf("%d: %v", step.sequence, err)
		}
	}
}

func TestFRUText(t *testing.T) {
	for _, c := range []struct {
		kind uint8
		raw  []byte
		wide bool
		want string
	}{
		{3, []byte("  Dell Inc.\x00\x00 "), false, "Dell Inc."},
		{3, []byte{0xb5, 'C'}, false, "µC"},
		{3, []byte{'A', 0, 0xe4, 0}, true, "Aä"},
		{2, []byte{0x29, 0xdc, 0xa6}, false, "IPMI"}, // the example of FRU section 13
		{1, []byte{0x12, 0xb3}, false, "12-3"},
		{0, []byte{0xca, 0xfe}, false, "cafe"},
		{0, nil, false, ""},
	} {
		if got := decodeText(c.kind, c.raw, c.wide); got != c.want {
			t.Errorf("type %d %x: %q, want %q", c.kind, c.raw, got, c.want)
		}
	}
}

func TestAttemptWaits(t *testing.T) {
	w := attemptWaits(time.Second, 3)
	if len(w) != 3 || w[0] != time.Second || w[2] != 4*time.Second {
		t.Errorf("%v", w)
	}
	if once := (&link{attempts: w}).once(); len(once) != 1 || once[0] != 7*time.Second {
		t.Errorf("%v", once)
	}
}
