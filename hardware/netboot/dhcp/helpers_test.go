package dhcp

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"go.etcd.io/bbolt"
)

var (
	addr = netip.MustParseAddr
	t0   = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

const (
	macA = "52:54:00:00:00:0a"
	macB = "52:54:00:00:00:0b"
	macC = "52:54:00:00:00:0c"
)

// testConfig leases .100 to .103, of which .101 is the gateway.
func testConfig() Config {
	return Config{
		Interface: "eth0", Address: addr("10.99.0.1"), Network: netip.MustParsePrefix("10.99.0.0/24"),
		Gateway: addr("10.99.0.101"), DNS: []netip.Addr{addr("10.99.0.1")}, NTP: []netip.Addr{addr("10.99.0.1")},
		RangeFirst: addr("10.99.0.100"), RangeLast: addr("10.99.0.103"), LeaseTime: time.Hour,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func openDB(t testing.TB, path string) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func tempDB(t testing.TB) *bbolt.DB { return openDB(t, filepath.Join(t.TempDir(), "db")) }

// message builds a client's packet.
func message(t testing.TB, mac string, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) []byte {
	t.Helper()
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(kind)}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m.ToBytes()
}

func parse(t testing.TB, b []byte) Request {
	t.Helper()
	r, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func generic(code dhcpv4.OptionCode, value ...byte) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(code, value))
}

func text(code dhcpv4.OptionCode, value string) dhcpv4.Modifier {
	return generic(code, []byte(value)...)
}

func requested(a string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(a)))
}

func toServer(a string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(a)))
}

func ciaddr(a string) dhcpv4.Modifier { return dhcpv4.WithClientIP(net.ParseIP(a)) }
func giaddr(a string) dhcpv4.Modifier { return dhcpv4.WithGatewayIP(net.ParseIP(a)) }

// fakeClock is set by the test.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fakeProber knows who uses which address.
type fakeProber struct {
	mu    sync.Mutex
	users map[netip.Addr]string
	asked []netip.Addr
	// block, when set, delays the answer until it is closed.
	block chan struct{}
}

func (p *fakeProber) Probe(_ context.Context, a netip.Addr) (net.HardwareAddr, error) {
	if p.block != nil {
		<-p.block
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, a)
	if u, ok := p.users[a]; ok {
		return net.ParseMAC(u)
	}
	return nil, nil
}
