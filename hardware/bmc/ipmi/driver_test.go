package ipmi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/ipmi"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	lab "regiond.dev/regiond/test/lab/bmc"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

// config with short times: loopback needs no pauses.
func config(address netip.AddrPort) ipmi.Config {
	return ipmi.Config{
		Target:          bmc.Target{Address: address, Username: bmctest.Username, Password: bmctest.Password},
		CommandInterval: time.Millisecond, SessionInterval: time.Millisecond,
		Timeout: 150 * time.Millisecond, Attempts: 3, PollInterval: 5 * time.Millisecond,
		SoftOffTimeout: 200 * time.Millisecond,
	}
}

func driver(t *testing.T, c ipmi.Config) *ipmi.BMC {
	t.Helper()
	b, err := ipmi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Logf("close: %v", err)
		}
	})
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check an error's class and reason, and that it does not give the password away.
func check(t *testing.T, err error, policy bmc.Policy, reason string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", reason)
	}
	if bmc.Class(err) != policy || bmc.Reason(err) != reason {
		t.Fatalf("got %s %s, want %s %s: %v", bmc.Class(err), bmc.Reason(err), policy, reason, err)
	}
	if strings.Contains(err.Error(), bmctest.Password) {
		t.Fatalf("the error holds the password: %v", err)
	}
}

func TestProbe(t *testing.T) {
	s := bmctest.Start(t)
	b := driver(t, config(s.Address))
	got, err := b.Probe(t.Context())
	must(t, err)
	want := bmc.Info{
		Manufacturer: bmctest.Manufacturer, Product: bmctest.Product, SerialNumber: bmctest.SerialNumber,
		BoardSerialNumber: bmctest.SerialNumber, ChassisSerialNumber: bmctest.SerialNumber,
		SystemUUID: bmctest.UUID, FirmwareVersion: "1.00", ManufacturerID: 7154, ProductID: 1, CipherSuite: 17,
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNetworkBoot(t *testing.T) {
	s := bmctest.Start(t)
	b := driver(t, config(s.Address))
	ctx := t.Context()
	for _, step := range []struct {
		name string
		set  func() error
		want lab.Boot
	}{
		{"UEFI network", func() error { return b.SetNetworkBoot(ctx, inventory.FirmwareUEFI) }, lab.Boot{Device: lab.BootPXE, EFI: true}},
		{"consumed by the boot before", func() error { return nil }, lab.Boot{}},
		{"BIOS network", func() error { return b.SetNetworkBoot(ctx, inventory.FirmwareBIOS) }, lab.Boot{Device: lab.BootPXE}},
		{"disk", func() error { return b.SetDiskBoot(ctx, inventory.FirmwareUEFI) }, lab.Boot{Device: lab.BootDisk, EFI: true}},
		{"cleared", func() error {
			return errors.Join(b.SetNetworkBoot(ctx, inventory.FirmwareUEFI), b.ClearBoot(ctx))
		}, lab.Boot{}},
	} {
		must(t, step.set())
		must(t, b.SetPower(ctx, bmc.Cycle))
		boots := s.Machine.Boots()
		if got := boots[len(boots)-1]; got != step.want {
			t.Errorf("%s: booted %+v, want %+v", step.name, got, step.want)
		}
	}
	if q := b.Quirks(); len(q) != 0 {
		t.Errorf("quirks of the virtual BMC: %q", q)
	}
}

func TestCipherSuiteFallback(t *testing.T) {
	for _, c := range []struct {
		name string
		drop bool // Open Session for suite 17 is not even answered
	}{{"refused", false}, {"ignored", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := bmctest.Start(t, func(c *lab.Config) { c.CipherSuites = []types.CipherSuiteID{types.CipherSuiteID3} })
			if c.drop {
				s.Network.DropIn(func(p []byte) bool {
					kind, ok := bmctest.PayloadType(p)
					return ok && kind == bmctest.OpenSession && len(p) >= 32 && p[16+12] == byte(types.AuthAlg_HMAC_SHA256)
				})
			}
			b := driver(t, config(s.Address))
			info, err := b.Probe(t.Context())
			must(t, err)
			if info.CipherSuite != 3 {
				t.Errorf("cipher suite %d", info.CipherSuite)
			}
			// The suite is remembered: after a restart there is one attempt, with 3.
			s.Restart()
			_, err = b.Power(t.Context())
			must(t, err)
			if n := s.Network.Count(bmctest.OpenSession); n != 1 {
				t.Errorf("%d Open Session requests after the suite was known", n)
			}
		})
	}
}

func TestOnlySuite17(t *testing.T) {
	s := bmctest.Start(t, func(c *lab.Config) { c.CipherSuites = []types.CipherSuiteID{types.CipherSuiteID17} })
	_, err := driver(t, config(s.Address)).Power(t.Context())
	must(t, err)
}

func TestWrongPasswordIsOneAttempt(t *testing.T) {
	for _, suites := range [][]types.CipherSuiteID{{3, 17}, {3}} {
		s := bmctest.Start(t, func(c *lab.Config) { c.CipherSuites = suites })
		var log bytes.Buffer
		c := config(s.Address)
		c.Timeout = 500 * time.Millisecond // a machine under load must not cause a second attempt
		c.Password = "wrong secret"
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		b := driver(t, c)
		for range 3 {
			_, err := b.Power(t.Context())
			check(t, err, bmc.Terminal, region.ReasonAuthenticationFailed)
			if !strings.Contains(err.Error(), bmctest.Username+"@"+s.Address.String()) {
				t.Errorf("the error does not name user and address: %v", err)
			}
			if strings.Contains(err.Error(), "wrong secret") {
				t.Errorf("the error holds the password: %v", err)
			}
		}
		if one, three := s.Network.Count(bmctest.RAKP1), s.Network.Count(bmctest.RAKP3); one != 1 || three != 0 {
			t.Errorf("suites %v: %d RAKP 1 and %d RAKP 3 for three commands, want 1 and 0", suites, one, three)
		}
		if strings.Contains(log.String(), "wrong secret") {
			t.Errorf("the log holds the password: %s", log.String())
		}
	}
}

func TestPrivilegeTooLow(t *testing.T) {
	s := bmctest.Start(t)
	// A user limited to USER may not become OPERATOR. It is set by an administrator, through IPMI itself.
	const setUserAccess = "\x91\x02\x02\x00" // change bits, channel 1, user 2, limit USER
	admin := driver(t, config(s.Address))
	must(t, admin.Raw(t.Context(), 0x06, 0x43, []byte(setUserAccess)))
	must(t, admin.Close(context.Background()))
	_, err := driver(t, config(s.Address)).Power(t.Context())
	// Said before the session is authenticated: it is tried again.
	check(t, err, bmc.Retry, region.ReasonPrivilegeInsufficient)
}

// forge makes of an answer of the given kind one with that status code.
func forge(kind byte, status types.RmcpStatusCode) func([]byte) []byte {
	return func(b []byte) []byte {
		if k, ok := bmctest.PayloadType(b); !ok || k != kind {
			return nil
		}
		b[16+1] = byte(status)
		return b
	}
}

const (
	openSessionResponse = 0x11
	rakp2               = 0x13
	rakp4               = 0x15
)

// What is said before a session is authenticated may be forged, or be a BMC's that is starting: it fails one
// attempt and no more.
func TestUnauthenticatedRefusalsDoNotLockOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		forge  func([]byte) []byte
		reason string
	}{
		{"no cipher suite", forge(openSessionResponse, types.RmcpStatusCodeNoCipherSuiteMatch), region.ReasonUnsupportedByBMC},
		{"no such role", forge(openSessionResponse, types.RmcpStatusCodeInvalidRole), region.ReasonPrivilegeInsufficient},
		{"no such user", forge(rakp2, types.RmcpStatusCodeUnauthorizedName), region.ReasonAuthenticationFailed},
		{"role not for this user", forge(rakp2, types.RmcpStatusCodeUnauthorizedRoleOfPriLevel), region.ReasonPrivilegeInsufficient},
		{"wrong proof", forge(rakp4, types.RmcpStatusCodeInvalidIntegrityCheckValue), region.ReasonProtocolError},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := bmctest.Start(t)
			b := driver(t, config(s.Address))
			s.Network.ForgeOut(c.forge)
			_, err := b.Power(t.Context())
			check(t, err, bmc.Retry, c.reason)
			s.Network.ForgeOut(nil)
			if _, err = b.Power(t.Context()); err != nil {
				t.Errorf("the BMC is not spoken to any more: %v", err)
			}
		})
	}
}

// A forged proof of another password that arrives first does not hide the BMC's own.
func TestForgedProofIsNotARefusal(t *testing.T) {
	s := bmctest.Start(t)
	s.Network.ForgeOut(func(b []byte) []byte {
		if k, ok := bmctest.PayloadType(b); !ok || k != rakp2 {
			return nil
		}
		b[len(b)-1] ^= 1
		return b
	})
	if _, err := driver(t, config(s.Address)).Power(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCredentialsThatCannotBe(t *testing.T) {
	c := config(netip.MustParseAddrPort("192.0.2.1:623"))
	c.Password = strings.Repeat("x", 21)
	_, err := ipmi.New(c)
	check(t, err, bmc.Terminal, region.ReasonCredentialsInvalid)
	if strings.Contains(err.Error(), c.Password) || !strings.Contains(err.Error(), "21 bytes") {
		t.Error(err)
	}
	c = config(c.Address)
	c.Username = strings.Repeat("u", 17)
	_, err = ipmi.New(c)
	check(t, err, bmc.Terminal, region.ReasonCredentialsInvalid)
}

func TestSecretsAreNotPrinted(t *testing.T) {
	c := config(netip.MustParseAddrPort("192.0.2.1:623"))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "target", bmc.Target{Address: c.Address, Username: "u", Password: c.Password})
	text := fmt.Sprintf("%v %+v %#v %v %#v", c, c, c, bmc.Target{Password: c.Password}, bmc.Target{Password: c.Password}) + log.String()
	if strings.Contains(text, c.Password) {
		t.Error(text)
	}
}

func TestSilentBMC(t *testing.T) {
	s := bmctest.Start(t)
	s.Network.DropIn(func([]byte) bool { return true })
	start := time.Now()
	_, err := driver(t, config(s.Address)).Power(t.Context())
	check(t, err, bmc.Retry, region.ReasonNoAnswer)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
	// A context ends the wait at once.
	c := config(s.Address)
	c.Timeout = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = driver(t, c).Power(ctx)
	check(t, err, bmc.Retry, region.ReasonNoAnswer)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	address := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	must(t, conn.Close())
	_, err = driver(t, config(address)).Power(t.Context())
	check(t, err, bmc.Retry, region.ReasonUnreachable)
}

func TestSlowBMC(t *testing.T) {
	s := bmctest.Start(t)
	// Later than the first attempt's wait: the answer to it must still count, and the handshake must not be confused.
	s.Network.DelayOut(250 * time.Millisecond)
	b := driver(t, config(s.Address))
	for range 3 {
		_, err := b.Power(t.Context())
		must(t, err)
	}
	if n := s.Network.Count(bmctest.RAKP1); n != 1 {
		t.Errorf("%d RAKP 1 packets", n)
	}
}

func TestLossyNetwork(t *testing.T) {
	s := bmctest.Start(t)
	n := 0
	s.Network.DropIn(func([]byte) bool { n++; return n%4 == 0 })
	b := driver(t, config(s.Address))
	must(t, b.SetNetworkBoot(t.Context(), inventory.FirmwareUEFI))
	must(t, b.SetPower(t.Context(), bmc.On))
	if boots := s.Machine.Boots(); len(boots) != 1 || boots[0].Device != lab.BootPXE {
		t.Errorf("boots %+v", boots)
	}
}

// What is not IPMI, or not of this session, is dropped and counted, and the answer behind it is taken.
func TestMalformedPacketsAreDroppedAndCounted(t *testing.T) {
	s := bmctest.Start(t)
	s.Network.NoiseOut(
		nil, []byte{0x06}, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), bytes.Repeat([]byte{0xff}, 1400),
		[]byte{0x06, 0x00, 0xff, 0x07, 0x06, 0xc0, 1, 2, 3, 4, 1, 0, 0, 0, 0xff, 0xff}, // encrypted, for another session, cut short
	)
	dropped := 0
	c := config(s.Address)
	c.Dropped = func() { dropped++ } // the driver calls it while it holds its mutex
	b := driver(t, c)
	_, err := b.Probe(t.Context())
	must(t, err)
	must(t, b.SetPower(t.Context(), bmc.On))
	if !s.Machine.On() {
		t.Error("the machine is off")
	}
	if handshake := 5 * 4; dropped < handshake {
		t.Errorf("%d datagrams were counted, more than %d sent", dropped, handshake)
	}
}

func TestRestartedBMC(t *testing.T) {
	s := bmctest.Start(t)
	b := driver(t, config(s.Address))
	must(t, b.SetPower(t.Context(), bmc.On))
	s.Restart()
	state, err := b.Power(t.Context())
	must(t, err)
	if state != region.PowerOn {
		t.Errorf("power %s", state)
	}
	s.Stop()
	_, err = b.Power(t.Context())
	check(t, err, bmc.Retry, region.ReasonUnreachable)
	s.Restart()
	_, err = b.Power(t.Context())
	must(t, err)
}
