package bmctest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"time"
)

// Payload types of RMCP+ that tests count (table 13-16).
const (
	OpenSession = 0x10
	RAKP1       = 0x12
	RAKP3       = 0x14
)

// Network is a BMC's socket with faults. Directions are seen from the BMC.
type Network struct {
	net.PacketConn

	mu       sync.Mutex
	dropIn   func(b []byte) bool
	delayOut time.Duration
	noiseOut [][]byte
	forgeOut func(b []byte) []byte
	payloads map[byte]int
	timers   []*time.Timer
}

// DropIn loses the arriving packets for which f says so; nil loses none.
func (n *Network) DropIn(f func(b []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropIn = f
}

// DelayOut holds back every answer.
func (n *Network) DelayOut(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delayOut = d
}

// NoiseOut sends these packets before every answer.
func (n *Network) NoiseOut(packets ...[]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noiseOut = packets
}

// ForgeOut sends, before an answer, what f makes of it as someone else on the network might; nil sends nothing.
func (n *Network) ForgeOut(f func(b []byte) []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forgeOut = f
}

// Count of RMCP+ packets that arrived with a payload type.
func (n *Network) Count(payload byte) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.payloads[payload]
}

// PayloadType of an RMCP+ packet; false for other packets.
func PayloadType(b []byte) (byte, bool) {
	if len(b) < 16 || b[3] != 0x07 || b[4] != 0x06 {
		return 0, false
	}
	return b[5] & 0x3f, true
}

// ReadFrom implements net.PacketConn.
func (n *Network) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		size, from, err := n.PacketConn.ReadFrom(b)
		if err != nil {
			return size, from, err
		}
		n.mu.Lock()
		if kind, ok := PayloadType(b[:size]); ok {
			n.payloads[kind]++
		}
		drop := n.dropIn != nil && n.dropIn(b[:size])
		n.mu.Unlock()
		if !drop {
			return size, from, nil
		}
	}
}

// WriteTo implements net.PacketConn.
func (n *Network) WriteTo(b []byte, to net.Addr) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := n.noiseOut
	if n.forgeOut != nil {
		if forged := n.forgeOut(bytes.Clone(b)); forged != nil {
			first = append(slices.Clone(first), forged)
		}
	}
	for _, noise := range first {
		if _, err := n.PacketConn.WriteTo(noise, to); err != nil {
			return 0, err
		}
	}
	if n.delayOut == 0 {
		return n.PacketConn.WriteTo(b, to)
	}
	packet := append([]byte(nil), b...)
	n.timers = append(n.timers, time.AfterFunc(n.delayOut, func() {
		// A packet that is late for a closed socket is lost, as on a wire.
		_, _ = n.PacketConn.WriteTo(packet, to)
	}))
	return len(b), nil
}

// Close implements net.PacketConn.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.timers {
		t.Stop()
	}
	return n.PacketConn.Close()
}
