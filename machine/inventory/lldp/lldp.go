// Package lldp listens for the Link Layer Discovery Protocol (IEEE 802.1AB): it tells which switch port
// a network interface is plugged into.
package lldp

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/inventory"
)

// group is the address "nearest bridge" that stations send to. Switches never forward it.
var group = [6]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// Listen waits for one neighbour to announce itself on an interface that is up. Stations send every
// 30 s, and most of them at once when the link comes up. nil without an error says that none
// was heard before the context's deadline.
func Listen(ctx context.Context, name string) (*inventory.LLDPNeighbour, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("lldp on %s: %w", name, err)
	}
	conn, err := packet.Listen(iface, packet.Raw, int(layers.EthernetTypeLinkLayerDiscovery), nil)
	if err != nil {
		return nil, fmt.Errorf("lldp on %s: %w", name, err)
	}
	// Nothing is written, so there is nothing to lose in closing.
	defer conn.Close()
	if err := joinGroup(conn, iface.Index); err != nil {
		return nil, fmt.Errorf("lldp on %s: join multicast group: %w", name, err)
	}
	stop := context.AfterFunc(ctx, func() {
		// A deadline in the past ends the read below; that it could not be set shows there.
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	buffer := make([]byte, 9216)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("lldp on %s: %w", name, err)
		}
		if neighbour := Decode(buffer[:n]); neighbour != nil {
			return neighbour, nil
		}
	}
}

// joinGroup makes the interface's filter let the group's frames through (packet(7)).
func joinGroup(conn *packet.Conn, index int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	membership := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(group))}
	copy(membership.Address[:], group[:])
	var joinErr error
	err = raw.Control(func(fd uintptr) {
		joinErr = unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &membership)
	})
	return errors.Join(err, joinErr)
}

// Decode reads an Ethernet frame; nil when it is not a whole LLDP frame.
func Decode(frame []byte) *inventory.LLDPNeighbour {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	discovery, ok := p.Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
	if !ok {
		return nil
	}
	neighbour := &inventory.LLDPNeighbour{
		ChassisID: chassisID(discovery.ChassisID),
		PortID:    portID(discovery.PortID),
	}
	if info, ok := p.Layer(layers.LayerTypeLinkLayerDiscoveryInfo).(*layers.LinkLayerDiscoveryInfo); ok {
		neighbour.SystemName = printable(info.SysName)
	}
	return neighbour
}

func chassisID(id layers.LLDPChassisID) string {
	switch id.Subtype {
	case layers.LLDPChassisIDSubTypeMACAddr:
		return net.HardwareAddr(id.ID).String()
	case layers.LLDPChassisIDSubTypeNetworkAddr:
		return networkAddress(id.ID)
	default:
		return printable(string(id.ID))
	}
}

func portID(id layers.LLDPPortID) string {
	switch id.Subtype {
	case layers.LLDPPortIDSubtypeMACAddr:
		return net.HardwareAddr(id.ID).String()
	case layers.LLDPPortIDSubtypeNetworkAddr:
		return networkAddress(id.ID)
	default:
		return printable(string(id.ID))
	}
}

// networkAddress is an IANA address family (1 IPv4, 2 IPv6) and the address.
func networkAddress(id []byte) string {
	if len(id) > 1 {
		if address, ok := netip.AddrFromSlice(id[1:]); ok {
			return address.String()
		}
	}
	return hex.EncodeToString(id)
}

// printable keeps what a switch says fit for a table: at most 255 bytes, no control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, s[:min(len(s), 255)])
}
