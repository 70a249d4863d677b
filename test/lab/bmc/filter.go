package bmc

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// filter stands between the socket and go-ipmi's server (v0.9.1), which handles every packet in a goroutine of its own
// where a panic ends the process. Found there:
//   - RAKP message 1 with a user name length of 228 or more: the length check overflows its byte and the copy
//     panics. One packet, no login needed.
//   - encrypted payloads that are no multiple of 16 bytes, in a session: the cipher panics.
//
// So only packets with right lengths pass. Commands inside of them are guarded by BMC.guard.
type filter struct {
	conn    net.PacketConn
	log     *slog.Logger
	dropped atomic.Uint64
	panics  atomic.Uint64
}

func (f *filter) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := f.conn.ReadFrom(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED):
			continue
		case err != nil:
			// Anything else is final; go-ipmi's loop would spin on it unless it is this error.
			if !errors.Is(err, net.ErrClosed) {
				f.log.Error("reading the BMC's socket", slog.Any("error", err))
			}
			return 0, nil, net.ErrClosed
		}
		if wellFormed(b[:n]) {
			return n, from, nil
		}
		f.dropped.Add(1)
		f.log.Debug("malformed packet dropped", slog.Any("from", from), slog.Int("bytes", n))
	}
}

func (f *filter) WriteTo(b []byte, to net.Addr) (int, error) { return f.conn.WriteTo(b, to) }
func (f *filter) Close() error                               { return f.conn.Close() }
func (f *filter) LocalAddr() net.Addr                        { return f.conn.LocalAddr() }

// wellFormed says whether the lengths in a packet are right (sections 13.1 to 13.28).
func wellFormed(b []byte) bool {
	const version, classASF, classIPMI = 0x06, 0x06, 0x07
	if len(b) < 5 || b[0] != version {
		return false
	}
	switch b[3] {
	case classASF:
		return len(b) >= 12
	case classIPMI:
		if b[4] == 0x06 {
			return wellFormedPlus(b)
		}
		return wellFormed15(b)
	}
	return false
}

// wellFormed15: only session-less packets are served, sessions of IPMI v1.5 are disabled.
func wellFormed15(b []byte) bool {
	const header, shortestMessage = 14, 7
	if len(b) < header+shortestMessage || b[4] != 0 || binary.LittleEndian.Uint32(b[9:]) != 0 {
		return false
	}
	length := int(b[13])
	return length >= shortestMessage && length <= len(b)-header
}

func wellFormedPlus(b []byte) bool {
	const (
		header = 16

		payloadIPMI        = 0x00
		payloadSOL         = 0x01
		payloadOpenSession = 0x10
		payloadRAKP1       = 0x12
		payloadRAKP3       = 0x14

		openSessionLength = 32
		rakp1Fixed        = 28
		rakp3Fixed        = 8
		longestName       = 16
		block             = 16 // AES
	)
	if len(b) < header {
		return false
	}
	length := int(binary.LittleEndian.Uint16(b[14:]))
	if length > len(b)-header {
		return false
	}
	payload := b[header:][:length]
	encrypted := b[5]&0x80 != 0
	session := binary.LittleEndian.Uint32(b[6:])
	switch b[5] & 0x3f {
	case payloadIPMI, payloadSOL:
		if encrypted {
			return session != 0 && length >= 2*block && length%block == 0
		}
		return length > 0
	case payloadOpenSession:
		return length == openSessionLength
	case payloadRAKP1:
		// Some clients send the name padded to its full length.
		return length >= rakp1Fixed && int(payload[27]) <= longestName &&
			rakp1Fixed+int(payload[27]) <= length && length <= rakp1Fixed+longestName
	case payloadRAKP3:
		return length >= rakp3Fixed
	}
	return false
}
