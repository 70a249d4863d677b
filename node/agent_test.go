package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/region"
)

func startAgent(t *testing.T, dir string, log io.Writer, change ...func(*Config)) (stop func()) {
	t.Helper()
	conf := Config{DataDir: dir, StateFile: filepath.Join(dir, "run", "agent.json"), Version: "v1", Observer: fakeObserver(t),
		HeartbeatEvery: 20 * time.Millisecond, ObserveEvery: 50 * time.Millisecond, CompareEvery: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, f := range change {
		f(&conf)
	}
	a, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAgent(t *testing.T) {
	r, id := newFakeRegion(t)
	dir := t.TempDir()
	writeIdentity(t, dir, id)
	var log bytes.Buffer
	r.refuse = enroll.ReasonUnavailable
	stop := startAgent(t, dir, &log)
	r.see("a first try to join", func() bool { return r.joins > 0 })
	stop()
	// The key is on disk before it is used, and is used again.
	key, err := os.ReadFile(filepath.Join(dir, "agent", "pending.key"))
	if err != nil {
		t.Fatal(err)
	}
	r.set(func() { r.refuse = "" })
	stop = startAgent(t, dir, &log)
	r.see("the status", func() bool { return r.writes > 0 && r.heartbeats > 2 })
	both, err := os.ReadFile(filepath.Join(dir, "agent", "client.pem"))
	if err != nil || !bytes.HasPrefix(both, key) {
		t.Errorf("%v: another key than the pending one is in use", err)
	}
	if left, err := ReadIdentity(filepath.Join(dir, identity.File)); err != nil || left.JoinToken != "" || left.Hostname != "s1" {
		t.Errorf("identity after the join: %+v %v", left, err)
	}
	r.set(func() {
		if nics := r.host.Status.Inventory.NICs; len(nics) != 2 || nics[0].LLDP == nil || nics[0].LLDP.PortID != "of eth0" || nics[1].LLDP != nil {
			t.Errorf("interfaces %+v; want the neighbour of the one with a link", nics)
		}
		if st := r.host.Status; st.BootID == "" || st.Inventory == nil || st.Inventory.MemoryBytes != 8<<30 || st.Image != "trixie-abc" || st.Slot != "B" || len(st.Addresses) != 1 || r.lease["leaseDurationSeconds"] != 40.0 || r.lease["holderIdentity"] != "s1" {
			t.Errorf("host %+v, lease %v", st, r.lease)
		}
	})
	if s, err := readState(filepath.Join(dir, "run", "agent.json")); err != nil || !s.Joined || s.LastSuccess.IsZero() {
		t.Errorf("state %+v %v", s, err)
	}

	// An idle host does not write its status; a wiped one is filled again.
	var writes, beats int
	r.set(func() { writes, beats = r.writes, r.heartbeats })
	r.see("ten more heartbeats", func() bool { return r.heartbeats > beats+10 })
	r.set(func() {
		if r.writes != writes {
			t.Errorf("an idle host wrote its status %d times", r.writes-writes)
		}
		r.host.Status = region.HostStatus{}
	})
	r.see("the wiped status", func() bool { return r.host.Status.BootID != "" })

	// The API server goes away and comes back; its clock counts for heartbeats.
	r.set(func() { r.away = true; beats = r.heartbeats })
	for seen := false; !seen; {
		s, err := readState(filepath.Join(dir, "run", "agent.json"))
		if err != nil {
			t.Fatal(err)
		}
		seen = s.Unreachable
	}
	r.set(func() { r.away, r.ahead = false, time.Hour })
	r.see("heartbeats by the server's clock", func() bool {
		at, err := time.Parse(time.RFC3339, r.lease["renewTime"].(string))
		return err == nil && time.Until(at) > 50*time.Minute && r.heartbeats > beats
	})
	r.see("a wrong clock", func() bool {
		return len(r.host.Status.Conditions) == 1 && r.host.Status.Conditions[0].Reason == "ClockWrong"
	})
	stop()

	// A restart uses the certificate; one past two thirds of its life is renewed with another key.
	r.set(func() { r.life, r.ahead = 10*time.Second, 0 })
	before := r.joins
	stop = startAgent(t, dir, &log)
	r.see("heartbeats", func() bool { return r.heartbeats > beats })
	stop()
	if r.joins != before || r.renewals != 0 {
		t.Errorf("%d joins, %d renewals", r.joins, r.renewals)
	}
	c := &credentials{dir: dir, id: id, systemUUID: "11111111-2222-3333-4444-555555555555", log: slog.New(slog.DiscardHandler)}
	if joined, err := c.load(); err != nil || !joined {
		t.Fatal(joined, err)
	}
	if err := c.renew(t.Context()); err != nil { // begun a minute ago and valid for ten seconds: renewal is due at once
		t.Fatal(err)
	}
	r.set(func() { r.life = time.Hour })
	stop = startAgent(t, dir, &log)
	r.see("a renewal by itself", func() bool { return r.renewals == 2 })
	r.see("that it arrived", func() bool {
		both, err := os.ReadFile(filepath.Join(dir, "agent", "client.pem"))
		pair, err2 := tls.X509KeyPair(both, both)
		return errors.Join(err, err2) == nil && bytes.Equal(r.confirmed, pair.Leaf.RawSubjectPublicKeyInfo)
	})
	stop()
	renewed, err := os.ReadFile(filepath.Join(dir, "agent", "client.pem"))
	if err != nil || bytes.HasPrefix(renewed, key) {
		t.Errorf("%v: the renewed certificate has the old key", err)
	}
	if st, err := os.Stat(filepath.Join(dir, "agent", "client.pem")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	if strings.Contains(log.String(), "s1.secret") {
		t.Error("the log holds the token")
	}
}

func TestAgentWithoutTokenAndCertificate(t *testing.T) {
	_, id := newFakeRegion(t)
	id.JoinToken = ""
	c := &credentials{dir: t.TempDir(), id: id, log: slog.New(slog.DiscardHandler)}
	if err := c.join(t.Context()); err == nil || !strings.Contains(err.Error(), "reinstallAfter") {
		t.Errorf("%v", err)
	}
}

// A host that was off for longer than its certificate lives asks, with the key on its disk, until
// it is let back. Nothing on the disk changes before.
func TestAgentWithExpiredCertificate(t *testing.T) {
	r, id := newFakeRegion(t)
	dir := t.TempDir()
	writeIdentity(t, dir, id)
	c := &credentials{dir: dir, id: id, systemUUID: "11111111-2222-3333-4444-555555555555", log: slog.New(slog.DiscardHandler)}
	r.life = -time.Second
	if err := c.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	expired, err := os.ReadFile(filepath.Join(dir, "agent", "client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	old := c.certificate().PrivateKey.(*ecdsa.PrivateKey)
	r.set(func() { r.life, r.refuse = time.Hour, enroll.ReasonNotReadmitted })
	var log bytes.Buffer
	stop := startAgent(t, dir, &log)
	r.see("a request to be readmitted", func() bool { return r.readmissions > 0 })
	stop()
	if s, err := readState(filepath.Join(dir, "run", "agent.json")); err != nil || s.Unreachable || s.LastSuccess.After(s.Time) {
		t.Errorf("state %+v %v", s, err)
	}
	if !strings.Contains(log.String(), enroll.ReasonNotReadmitted) {
		t.Errorf("the log does not say why:\n%s", log.String())
	}
	if now, err := os.ReadFile(filepath.Join(dir, "agent", "client.pem")); err != nil || !bytes.Equal(now, expired) {
		t.Errorf("%v: key or certificate changed although the host was refused", err)
	}
	if r.heartbeats != 0 || r.renewals != 0 {
		t.Errorf("%d heartbeats, %d renewals with an expired certificate", r.heartbeats, r.renewals)
	}
	r.set(func() { r.refuse = "" })
	stop = startAgent(t, dir, &log)
	r.see("heartbeats", func() bool { return r.heartbeats > 2 })
	stop()
	if joined, err := c.load(); err != nil || !joined || !old.Equal(c.certificate().PrivateKey) || c.expired(time.Now()) {
		t.Errorf("%v %v: want a valid certificate of the same key", joined, err)
	}
}
