package dhcp

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/bbolt"
)

// testServer answers without a network.
type testServer struct {
	*Server
	t     *testing.T
	clock *fakeClock
	probe *fakeProber
}

func newTestServer(t *testing.T, db *bbolt.DB) *testServer {
	t.Helper()
	clock, probe := &fakeClock{now: t0}, &fakeProber{users: map[netip.Addr]string{}}
	c := testConfig()
	c.DB, c.Now, c.Prober = db, clock.Now, probe
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &testServer{Server: s, t: t, clock: clock, probe: probe}
}

func (s *testServer) send(mac string, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) Reply {
	s.t.Helper()
	return s.answer(s.t.Context(), parse(s.t, message(s.t, mac, kind, mods...)))
}

// lease runs the usual four messages and returns the address.
func (s *testServer) lease(mac string) netip.Addr {
	s.t.Helper()
	offer := s.send(mac, dhcpv4.MessageTypeDiscover)
	if offer.Packet == nil {
		s.t.Fatalf("%s: no offer: %s", mac, offer.Drop)
	}
	ack := s.send(mac, dhcpv4.MessageTypeRequest, toServer("10.99.0.1"), requested(offer.Packet.YourIPAddr.String()))
	if ack.Packet == nil || ack.Packet.MessageType() != dhcpv4.MessageTypeAck {
		s.t.Fatalf("%s: no ack: %+v", mac, ack)
	}
	return addr4(ack.Packet.YourIPAddr)
}

func TestLeasesAreSticky(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, db)
	a, b := s.lease(macA), s.lease(macB)
	if a == b {
		t.Fatalf("both have %s", a)
	}
	if again := s.lease(macA); again != a {
		t.Errorf("%s then %s", a, again)
	}
	s.clock.advance(3 * time.Hour) // expired, but nobody else needed it
	if again := s.lease(macA); again != a {
		t.Errorf("%s then %s after expiry", a, again)
	}
	s.send(macA, dhcpv4.MessageTypeRelease, ciaddr(a.String()))
	if again := s.lease(macA); again != a {
		t.Errorf("%s then %s after release", a, again)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = newTestServer(t, openDB(t, path))
	if again := s.lease(macA); again != a {
		t.Errorf("%s then %s after a restart", a, again)
	}
	if len(s.probe.asked) != 0 {
		t.Errorf("known addresses were probed: %v", s.probe.asked)
	}
	// With the database lost, the choice is the same as long as addresses do not collide.
	s = newTestServer(t, tempDB(t))
	if again := s.lease(macA); again != a {
		t.Errorf("%s then %s after the loss of the database", a, again)
	}
}

func TestHolder(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	offer := s.send(macA, dhcpv4.MessageTypeDiscover)
	if _, ok := s.Holder(addr4(offer.Packet.YourIPAddr)); ok {
		t.Error("an offer is not a lease")
	}
	a := s.lease(macA)
	if mac, ok := s.Holder(a); !ok || mac.String() != macA {
		t.Errorf("holder %s %v", mac, ok)
	}
	s.clock.advance(time.Hour)
	if _, ok := s.Holder(a); ok {
		t.Error("the lease expired")
	}
	s.lease(macA)
	s.send(macA, dhcpv4.MessageTypeRelease, ciaddr(a.String()))
	if _, ok := s.Holder(a); ok {
		t.Error("the lease was released")
	}
}

func TestExhaustion(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	a := s.lease(macA)
	s.clock.advance(time.Minute)
	s.lease(macB)
	s.lease(macC)
	const macD = "52:54:00:00:00:0d"
	if r := s.send(macD, dhcpv4.MessageTypeDiscover); r.Drop != "exhausted" {
		t.Fatalf("a fourth address of three: %+v", r)
	}
	if n := testutil.ToFloat64(s.metrics.exhausted); n != 1 {
		t.Errorf("counted %v", n)
	}
	// An hour after the first lease only that one has expired: it is used again.
	s.clock.advance(59*time.Minute + time.Second)
	if got := s.lease(macD); got != a {
		t.Errorf("%s, want the oldest, %s", got, a)
	}
	// Its former holder may not come back to it.
	if r := s.send(macA, dhcpv4.MessageTypeRequest, ciaddr(a.String())); r.Packet.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("%s", r.Packet.Summary())
	}
}

func TestOffersExpire(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	for _, mac := range []string{macA, macB, macC} {
		s.send(mac, dhcpv4.MessageTypeDiscover)
	}
	const macD = "52:54:00:00:00:0d"
	if r := s.send(macD, dhcpv4.MessageTypeDiscover); r.Drop != "exhausted" {
		t.Fatalf("an offered address was offered again: %+v", r)
	}
	s.clock.advance(offerTime)
	s.lease(macD)
}

func TestTakingAnotherServersOfferFreesOurs(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	for _, mac := range []string{macA, macB, macC} {
		s.send(mac, dhcpv4.MessageTypeDiscover)
	}
	s.send(macA, dhcpv4.MessageTypeRequest, toServer("10.99.0.2"), requested("10.99.0.50"))
	s.lease("52:54:00:00:00:0d")
}

func TestDeclineQuarantines(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	a := s.lease(macA)
	s.send(macA, dhcpv4.MessageTypeDecline, requested(a.String()), toServer("10.99.0.1"))
	if n := testutil.ToFloat64(s.metrics.conflicts); n != 1 {
		t.Errorf("counted %v", n)
	}
	for _, mac := range []string{macA, macB} {
		if got := s.lease(mac); got == a {
			t.Errorf("%s got the declined %s", mac, a)
		}
	}
	if r := s.send(macC, dhcpv4.MessageTypeDiscover, requested(a.String())); r.Drop != "exhausted" {
		t.Errorf("%+v", r)
	}
	s.clock.advance(quarantine)
	if got := s.lease(macC); got != a {
		t.Errorf("%s after the quarantine, want %s", got, a)
	}
}

func TestAddressesInUseAreNotOffered(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	s.probe.users[addr("10.99.0.100")] = "aa:bb:cc:dd:ee:ff"
	s.probe.users[addr("10.99.0.103")] = "aa:bb:cc:dd:ee:fe"
	// Two probes a DISCOVER: with two of three in use, the client may have to ask twice.
	s.send(macA, dhcpv4.MessageTypeDiscover)
	if a := s.lease(macA); a != addr("10.99.0.102") {
		t.Errorf("%s is in use", a)
	}
	if r := s.send(macB, dhcpv4.MessageTypeDiscover); r.Packet != nil {
		t.Errorf("offered %s", r.Packet.YourIPAddr)
	}
	if n := testutil.ToFloat64(s.metrics.conflicts); n != 2 {
		t.Errorf("counted %v", n)
	}
}

// While an address is probed, the client's second DISCOVER neither probes nor gets another one.
func TestDiscoverDuringProbe(t *testing.T) {
	s := newTestServer(t, tempDB(t))
	s.probe.block = make(chan struct{})
	first := make(chan Reply)
	r := parse(t, message(t, macA, dhcpv4.MessageTypeDiscover))
	go func() { first <- s.answer(t.Context(), r) }()
	for s.pool.Lookup(r).Own.State != StateProbing {
		select {
		case reply := <-first:
			t.Fatalf("%+v", reply)
		default:
		}
	}
	if second := s.send(macA, dhcpv4.MessageTypeDiscover); second.Drop != "probing" {
		t.Errorf("%+v", second)
	}
	close(s.probe.block)
	if reply := <-first; reply.Packet == nil {
		t.Errorf("%+v", reply)
	}
}

func TestBadRecordsAreForgotten(t *testing.T) {
	db := tempDB(t)
	err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(Bucket))
		if err != nil {
			return err
		}
		for k, v := range map[string]string{
			"10.99.0.100": `{"address":"10.99.0.100","client":"` + macA + `","state":"Bound","expires":"2026-11-29T13:00:00Z"}`,
			"10.99.0.101": `{"address":"10.99.0.101","client":"` + macB + `","state":"Bound","expires":"2026-11-29T13:00:00Z"}`, // the gateway's
			"10.99.0.102": `{"address":"10.99.0.103","client":"` + macB + `","state":"Bound","expires":"2026-11-29T13:00:00Z"}`, // not its key
			"10.99.0.103": `{`,
			"10.98.0.1":   `{"address":"10.98.0.1","client":"` + macB + `","state":"Bound","expires":"2026-11-29T13:00:00Z"}`, // another network's
		} {
			if err := b.Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, db)
	if n := s.pool.Count(t0); n != 1 {
		t.Errorf("%d leases", n)
	}
	if mac, ok := s.Holder(addr("10.99.0.100")); !ok || mac.String() != macA {
		t.Errorf("holder %s %v", mac, ok)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if n := tx.Bucket([]byte(Bucket)).Stats().KeyN; n != 1 {
			t.Errorf("%d records are left", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
