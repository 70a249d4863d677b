package bmc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
	"github.com/bougou/go-ipmi/pkg/vmproto"

	hardware "regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/test/lab/bmc"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

// kcs gives the guest's side of a BMC: its system interface, without login.
func kcs(t *testing.T, s *bmctest.Server) func(netFn, command uint8, data ...byte) (types.CompletionCode, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kcs.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.ServeKCS(ctx, listener) }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Errorf("KCS: %v", err)
		}
	})
	guest := vmproto.NewClient(conn, 5*time.Second)
	return func(netFn, command uint8, data ...byte) (types.CompletionCode, []byte) {
		t.Helper()
		code, out, err := guest.Command(netFn, command, data...)
		if err != nil {
			t.Fatal(err)
		}
		return types.CompletionCode(code), out
	}
}

func TestSystemInterface(t *testing.T) {
	s := bmctest.Start(t)
	guest := kcs(t, s)
	if code, out := guest(0x06, 0x01); code != 0 || len(out) < 11 || out[4] != 0x02 {
		t.Errorf("Get Device ID: %v %x", code, out)
	}
	if code, out := guest(0x06, 0x37); code != 0 || len(out) != 16 {
		t.Errorf("Get System GUID: %v %x", code, out)
	} else if uuid, order := hardware.GUIDToUUID([16]byte(out)); uuid != bmctest.UUID || order != hardware.OrderSMBIOS {
		t.Errorf("%s in %s order", uuid, order)
	}
}

func TestBootFlags(t *testing.T) {
	const chassis, set, get, control = 0x00, 0x08, 0x09, 0x02
	clock := bmctest.NewClock(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	s := bmctest.Start(t, func(c *bmc.Config) { c.Clock = clock })
	guest := kcs(t, s)
	ok := func(netFn, command uint8, data ...byte) []byte {
		t.Helper()
		code, out := guest(netFn, command, data...)
		if code != 0 {
			t.Fatalf("command %x %x: %v", command, data, code)
		}
		return out
	}
	valid := func() bool { return ok(chassis, get, 5, 0, 0)[2]&0x80 != 0 }

	pxe := bmc.Boot{Device: bmc.BootPXE, EFI: true}
	disk := bmc.Boot{Device: bmc.BootDisk}
	for _, c := range []struct {
		name   string
		keep   bool // parameter 3: not cleared by time
		flags  []byte
		wait   time.Duration
		boots  []bmc.Boot // that follow one another
		marked bool       // invalid by the selector's top bit
	}{
		{name: "once", flags: []byte{0xa0, 0x04, 0, 0, 0}, boots: []bmc.Boot{pxe, {}}},
		{name: "persistent", flags: []byte{0xe0, 0x04, 0, 0, 0}, wait: time.Hour, boots: []bmc.Boot{pxe, pxe, pxe}},
		{name: "just in time", flags: []byte{0x80, 0x08, 0, 0, 0}, wait: 59 * time.Second, boots: []bmc.Boot{disk, {}}},
		{name: "expired", flags: []byte{0xa0, 0x04, 0, 0, 0}, wait: 60 * time.Second, boots: []bmc.Boot{{}}},
		{name: "kept", keep: true, flags: []byte{0xa0, 0x04, 0, 0, 0}, wait: time.Hour, boots: []bmc.Boot{pxe, {}}},
		{name: "not valid", flags: []byte{0x20, 0x04, 0, 0, 0}, boots: []bmc.Boot{{}}},
		{name: "locked", flags: []byte{0xa0, 0x04, 0, 0, 0}, marked: true, boots: []bmc.Boot{{}}},
		{name: "no override", flags: []byte{0x80, 0x00, 0, 0, 0}, boots: []bmc.Boot{{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			three := []byte{3, 0}
			if c.keep {
				three[1] = 0x08
			}
			ok(chassis, set, three...)
			five := append([]byte{5}, c.flags...)
			if c.marked {
				five[0] |= 0x80
			}
			ok(chassis, set, five...)
			if got := ok(chassis, get, 5, 0, 0); got[0] != 1 || got[1] != five[0] || !bytes.Equal(got[2:], c.flags) {
				t.Errorf("read back %x", got)
			}
			clock.Advance(c.wait)
			for i, want := range c.boots {
				// On, Reset and Cycle all are boots.
				before := len(s.Machine.Boots())
				s.Machine.Set(i > 0)
				ok(chassis, control, []byte{1, 3, 2}[i%3])
				bmctest.Eventually(t, "a boot", func() bool { return len(s.Machine.Boots()) == before+1 })
				if got := s.Machine.Boots()[before]; got != want {
					t.Errorf("boot %d is %+v, want %+v", i, got, want)
				}
			}
			if c.name == "once" && valid() {
				t.Error("one-shot flags are still valid")
			}
		})
	}
	// The guest restarts by itself.
	ok(chassis, set, 5, 0xa0, 0x04, 0, 0, 0)
	if got := s.NextBoot(); got != pxe {
		t.Errorf("%+v", got)
	}
	if got := s.NextBoot(); got != (bmc.Boot{}) {
		t.Errorf("%+v", got)
	}
	// Power on of a machine that is on is not a boot.
	s.Machine.Set(true)
	ok(chassis, set, 5, 0xa0, 0x04, 0, 0, 0)
	ok(chassis, control, 1)
	if !valid() {
		t.Error("power on of a running machine consumed the flags")
	}

	// Bad input.
	for _, c := range []struct {
		data []byte
		want types.CompletionCode
	}{
		{nil, types.CodeRequestDataLengthInvalid},
		{[]byte{5, 0x80}, types.CodeRequestDataLengthInvalid},
		{[]byte{9, 0}, types.CodeParameterNotSupported},
	} {
		if code, _ := guest(chassis, set, c.data...); code != c.want {
			t.Errorf("set %x: %v, want %v", c.data, code, c.want)
		}
	}
	ok(chassis, set, 0, 1)
	if code, _ := guest(chassis, set, 0, 1); code != types.CodeParamConfigSetInProgressConflict {
		t.Errorf("set in progress twice: %v", code)
	}
	ok(chassis, set, 0, 0)
	ok(chassis, set, 4, 0xff, 0xff)
	if got := ok(chassis, get, 4, 0, 0); !bytes.Equal(got[2:], []byte{0xff, 0xff}) {
		t.Errorf("parameter 4: %x", got)
	}
}

func TestEventLog(t *testing.T) {
	const storage = 0x0a
	clock := bmctest.NewClock(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	s := bmctest.Start(t, func(c *bmc.Config) { c.Clock = clock })
	guest := kcs(t, s)
	if code, _ := guest(storage, 0x43, 0, 0, 0, 0, 0, 0xff); code != types.CodeRequestedDataNotPresent {
		t.Errorf("entry of an empty log: %v", code)
	}
	record := append(make([]byte, 2), 0xe0) // an OEM record without time stamp
	record = append(record, []byte("thirteen byte")...)
	const more = 20
	for range 512 + more {
		if code, _ := guest(storage, 0x44, record...); code != 0 {
			t.Fatal(code)
		}
	}
	code, info := guest(storage, 0x40)
	if code != 0 || binary.LittleEndian.Uint16(info[1:]) != 512 || binary.LittleEndian.Uint16(info[3:]) != 0 {
		t.Errorf("full log: %v %x", code, info)
	}
	seen, id := 0, uint16(0)
	for id != 0xffff {
		code, out := guest(storage, 0x43, 0, 0, byte(id), byte(id>>8), 0, 0xff)
		if code != 0 || len(out) != 18 {
			t.Fatalf("entry %d: %v %x", id, code, out)
		}
		if seen == 0 && binary.LittleEndian.Uint16(out[2:]) != more+1 {
			t.Errorf("the oldest record is %d", binary.LittleEndian.Uint16(out[2:]))
		}
		seen++
		id = binary.LittleEndian.Uint16(out)
	}
	if seen != 512 {
		t.Errorf("read %d records", seen)
	}
	// Erasing needs the reservation that is current.
	if code, _ := guest(storage, 0x47, 9, 9, 'C', 'L', 'R', 0xaa); code != types.CodeReservationCanceled {
		t.Errorf("clear without reservation: %v", code)
	}
	_, reservation := guest(storage, 0x42)
	if code, _ := guest(storage, 0x47, reservation[0], reservation[1], 'C', 'L', 'R', 0xaa); code != 0 {
		t.Error(code)
	}
	set := binary.LittleEndian.AppendUint32(nil, 1000)
	if code, _ := guest(storage, 0x49, set...); code != 0 {
		t.Error(code)
	}
	clock.Advance(5 * time.Second)
	if _, now := guest(storage, 0x48); binary.LittleEndian.Uint32(now) != 1005 {
		t.Errorf("time %x", now)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := bmc.Config{Address: "127.0.0.1:0", Username: "u", Password: "p", Machine: &bmctest.Machine{}, UUID: bmctest.UUID}
	for name, change := range map[string]func(*bmc.Config){
		"no machine":    func(c *bmc.Config) { c.Machine = nil },
		"no user":       func(c *bmc.Config) { c.Username = "" },
		"long user":     func(c *bmc.Config) { c.Username = strings.Repeat("u", 17) },
		"long password": func(c *bmc.Config) { c.Password = strings.Repeat("p", 21) },
		"no UUID":       func(c *bmc.Config) { c.UUID = "" },
		"long FRU":      func(c *bmc.Config) { c.FRU.Product = strings.Repeat("p", 64) },
		"bad address":   func(c *bmc.Config) { c.Address = "256.0.0.1:x" },
	} {
		c := good
		change(&c)
		if _, err := bmc.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// longName is RAKP message 1 whose user name length overflows go-ipmi's check.
func longName(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString("0600ff0706120000000000000000" + "1c00" + strings.Repeat("00", 27) + "f0")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whatever arrives at its socket, the BMC must go on answering.
func FuzzPackets(f *testing.F) {
	open := "0600ff07061000000000000000002000" + "00000000a4a3a2a0" + "0000000803000000" + "0100000804000000" + "0200000801000000"
	for _, seed := range []string{
		"", "06", "0600ff07", "0600ff0706", open, open[:60], "0600ff06000011be80070000", "0600ff06000011be8007",
		"0600ff0700000000000000000009" + "2018c88100388e04b5", "0600ff0702" + strings.Repeat("00", 40),
		"0600ff0706c001020304010000002000" + strings.Repeat("aa", 60), "0600ff0706140000000000000000" + "0800" + strings.Repeat("00", 8),
		"0600ff07064101020304010000000400" + "00000000", "0600ff07060200000000000000000000",
	} {
		b, err := hex.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(longName(f))
	// The log of a fuzz test cannot be written from inside its target.
	s := bmctest.Start(f, func(c *bmc.Config) { c.Log = slog.New(slog.DiscardHandler) })
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := net.Dial("udp", s.Address.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(b); err != nil {
			return // too long for a datagram
		}
		if _, err := hardware.Ping(t.Context(), s.Address); err != nil {
			t.Errorf("no answer after %x: %v", b, err)
		}
	})
}

func TestMalformedPacketsAreCounted(t *testing.T) {
	s := bmctest.Start(t)
	conn, err := net.Dial("udp", s.Address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, b := range [][]byte{longName(t), {0x06}, []byte("GET / HTTP/1.1")} {
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	bmctest.Eventually(t, "three packets are dropped", func() bool { return s.Dropped() == 3 })
	if _, err := hardware.Ping(t.Context(), s.Address); err != nil {
		t.Error(err)
	}
}
