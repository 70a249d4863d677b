package dhcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/packet"
)

// Prober asks who uses an address.
type Prober interface {
	// Probe returns the station that uses the address, or nil when none answers. It MUST be bounded in
	// time.
	Probe(ctx context.Context, a netip.Addr) (net.HardwareAddr, error)
}

// probeTime is how long an answer to ARP is awaited. Firmware waits at least a second for the
// first offer (PXE 2.1: 4 s).
const probeTime = 400 * time.Millisecond

// ARPProber probes as RFC 5227 section 2.1.1 does: an ARP request whose sender address is zero,
// so that it changes no cache.
type ARPProber struct {
	Interface string
}

const (
	etherTypeARP = 0x0806
	arpLen       = 28 // Ethernet and IPv4
	arpRequest   = 1
)

// Probe sends two requests, for the first may be lost, and waits for an answer.
func (p ARPProber) Probe(ctx context.Context, a netip.Addr) (net.HardwareAddr, error) {
	ifi, err := net.InterfaceByName(p.Interface)
	if err != nil {
		return nil, fmt.Errorf("ARP probe on %s: %w", p.Interface, err)
	}
	conn, err := packet.Listen(ifi, packet.Datagram, etherTypeARP, nil)
	if err != nil {
		return nil, fmt.Errorf("ARP probe on %s: %w", p.Interface, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	request := arpProbe(ifi.HardwareAddr, a)
	buf := make([]byte, 128)
	for range 2 {
		if _, err := conn.WriteTo(request, &packet.Addr{HardwareAddr: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}); err != nil {
			return nil, fmt.Errorf("ARP probe for %s on %s: %w", a, p.Interface, err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(probeTime / 2)); err != nil {
			return nil, err
		}
		for {
			n, _, err := conn.ReadFrom(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("ARP probe for %s on %s: %w", a, p.Interface, err)
			}
			if mac := arpUser(buf[:n], a, ifi.HardwareAddr); mac != nil {
				return mac, nil
			}
		}
	}
	return nil, nil
}

// arpProbe builds the request (RFC 826).
func arpProbe(mac net.HardwareAddr, a netip.Addr) []byte {
	b := make([]byte, arpLen)
	binary.BigEndian.PutUint16(b[0:], 1)      // hardware: Ethernet
	binary.BigEndian.PutUint16(b[2:], 0x0800) // protocol: IPv4
	b[4], b[5] = 6, 4
	binary.BigEndian.PutUint16(b[6:], arpRequest)
	copy(b[8:14], mac)
	copy(b[24:28], a.AsSlice())
	return b
}

// arpUser returns the sender of an ARP packet when it claims the address.
func arpUser(b []byte, a netip.Addr, self net.HardwareAddr) net.HardwareAddr {
	if len(b) < arpLen || binary.BigEndian.Uint16(b[2:]) != 0x0800 || b[4] != 6 || b[5] != 4 {
		return nil
	}
	mac := net.HardwareAddr(bytes.Clone(b[8:14]))
	if bytes.Equal(mac, self) || netip.AddrFrom4([4]byte(b[14:18])) != a {
		return nil
	}
	return mac
}
