package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/test/lab/bmc"
	"regiond.dev/regiond/test/lab/namespace"
)

// bootSector writes "DISK" to the first serial port and halts: 16-bit code, loaded by the BIOS at 0x7c00.
func bootSector() []byte {
	var b bytes.Buffer
	for _, c := range "DISK\n" {
		b.Write([]byte{0xba, 0xf8, 0x03, 0xb0, byte(c), 0xee}) // mov dx, 0x3f8; mov al, c; out dx, al
	}
	b.Write([]byte{0xf4, 0xeb, 0xfd}) // hlt; jmp to it
	s := make([]byte, 512)
	copy(s, b.Bytes())
	s[510], s[511] = 0x55, 0xaa
	return s
}

// TestBootOrder runs a real machine: a one-shot network boot changes one boot only, whether it came
// with power-on or with reset, and the boots after it are from the disk.
func TestBootOrder(t *testing.T) {
	ns := namespace.Namespace{Name: fmt.Sprintf("rl-machine-%d", os.Getpid())}
	t.Cleanup(func() {
		if err := ns.Delete(); err != nil {
			t.Error(err)
		}
	})
	if err := ns.Create(); err != nil {
		t.Fatal(err)
	}
	if err := ns.Bridge("br0", netip.MustParsePrefix("10.99.0.1/24")); err != nil {
		t.Fatal(err)
	}
	if err := ns.Tap("tap-m", "br0"); err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{
		Name: "m", Dir: t.TempDir(), UUID: "5557e68d-a4dc-5a11-9333-099b6fc86ec5", SerialNumber: "S1",
		Firmware: inventory.FirmwareBIOS, CPUs: 1, Memory: 64, MACAddress: "02:99:00:00:00:01", Tap: "tap-m",
		Disks: []Disk{{SerialNumber: "D0", Bytes: 1 << 20}},
	}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(m.diskFile(0), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bootSector()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	console, err := m.Console(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	output := make(chan []byte)
	go func() {
		defer close(output)
		for {
			b := make([]byte, 4096)
			n, err := console.Read(b)
			if err != nil {
				return
			}
			output <- b[:n]
		}
	}()
	// SeaBIOS speaks on VGA only; iPXE's ROM, started by a network boot, on the serial line too.
	sees := func(want string) {
		t.Helper()
		var seen []byte
		timeout := time.After(time.Minute)
		for !bytes.Contains(seen, []byte(want)) {
			select {
			case b := <-output:
				seen = append(seen, b...)
			case <-timeout:
				t.Fatalf("no %q on the console within a minute, but %q", want, seen)
			}
		}
	}
	// One thread starts all QEMUs: they end with the thread that started them.
	work, results := make(chan func() error), make(chan error)
	go func() {
		results <- ns.Do(func() error {
			for f := range work {
				results <- f()
			}
			return nil
		})
	}()
	inside := func(f func() error) {
		t.Helper()
		work <- f
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	on := func(b bmc.Boot) func() error { return func() error { return m.PowerOn(ctx, b) } }
	var dhcp net.PacketConn
	inside(func() (err error) {
		dhcp, err = net.ListenPacket("udp4", ":67")
		return err
	})
	defer dhcp.Close()
	t.Cleanup(func() {
		if err := m.PowerOff(ctx); err != nil {
			t.Error(err)
		}
	})

	inside(on(bmc.Boot{}))
	sees("DISK")
	for range 2 { // from disk again, as no override is left
		if err := m.Reset(ctx, bmc.Boot{}); err != nil {
			t.Fatal(err)
		}
		sees("DISK")
	}
	if err := m.PowerOff(ctx); err != nil {
		t.Fatal(err)
	}
	if on, err := m.PowerState(ctx); on || err != nil {
		t.Fatalf("power %t, %v after PowerOff", on, err)
	}
	inside(on(bmc.Boot{Device: bmc.BootPXE}))
	if err := dhcp.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 1500)
	if _, _, err := dhcp.ReadFrom(packet); err != nil {
		t.Fatalf("no DHCPDISCOVER after a one-shot network boot: %v", err)
	}
	if err := m.Reset(ctx, bmc.Boot{}); err != nil {
		t.Fatal(err)
	}
	sees("DISK")
}
