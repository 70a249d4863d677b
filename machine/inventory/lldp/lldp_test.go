package lldp_test

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/machine/inventory/lldp"
)

// frame is an LLDP frame as a switch sends it, made of type-length-value triples by hand.
func frame(tlvs ...[]byte) []byte {
	f := []byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc}
	for _, t := range tlvs {
		f = append(f, t...)
	}
	return append(f, 0, 0)
}

func tlv(kind int, value string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(kind<<9|len(value))), value...)
}

func TestDecode(t *testing.T) {
	ttl := tlv(3, "\x00\x78")
	for name, tc := range map[string]struct {
		frame []byte
		want  *inventory.LLDPNeighbour
	}{
		"MAC and interface name": {
			frame(tlv(1, "\x04\x00\x1c\x73\x00\x00\x01"), tlv(2, "\x05Ethernet12/1"), ttl, tlv(4, "to rack 7"), tlv(5, "leaf-1")),
			&inventory.LLDPNeighbour{ChassisID: "00:1c:73:00:00:01", PortID: "Ethernet12/1", SystemName: "leaf-1"},
		},
		"network address and control characters": {
			frame(tlv(1, "\x05\x01\x0a\x00\x00\x01"), tlv(2, "\x07ge-0\x1b[2J"), ttl),
			&inventory.LLDPNeighbour{ChassisID: "10.0.0.1", PortID: "ge-0[2J"},
		},
		"no port":   {frame(tlv(1, "\x04\x00\x1c\x73\x00\x00\x01"), ttl), nil},
		"cut off":   {frame(tlv(1, "\x04\x00\x1c\x73\x00\x00\x01"), tlv(2, "\x05Ethernet"))[:24], nil},
		"no LLDP":   {append(make([]byte, 12), 8, 0, 1, 2, 3), nil},
		"too short": {[]byte{1, 2, 3}, nil},
	} {
		got := lldp.Decode(tc.frame)
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(frame(tlv(1, "\x04\x00\x1c\x73\x00\x00\x01"), tlv(2, "\x05Ethernet12/1"), tlv(3, "\x00\x78"), tlv(5, "leaf-1")))
	f.Fuzz(func(t *testing.T, b []byte) { lldp.Decode(b) })
}

// A frame sent on one end of a veth pair is heard on the other, and silence is not an error.
func TestListen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test makes a network namespace: run it as root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with its namespace
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "host0"}, PeerName: "switch0"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host0", "switch0"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
	iface, err := net.InterfaceByName("switch0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := packet.Listen(iface, packet.Raw, 0x88cc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		f := frame(tlv(1, "\x04\x00\x1c\x73\x00\x00\x01"), tlv(2, "\x05swp3"), tlv(3, "\x00\x78"), tlv(5, "leaf-2"))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := conn.WriteTo(f, &packet.Addr{HardwareAddr: f[:6]}); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	got, err := lldp.Listen(ctx, "host0")
	cancel()
	<-sent
	if want := (inventory.LLDPNeighbour{ChassisID: "00:1c:73:00:00:01", PortID: "swp3", SystemName: "leaf-2"}); err != nil || got == nil || *got != want {
		t.Fatalf("heard %+v (%v), want %+v", got, err, want)
	}
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if got, err := lldp.Listen(short, "switch0"); got != nil || err != nil {
		t.Fatalf("silence gave %+v, %v", got, err)
	}
}
