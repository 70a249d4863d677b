package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"regiond.dev/regiond/bootstrap/journal"
)

// clock returns a clock that advances by a second at every reading.
func clock() func() time.Time {
	t := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { t = t.Add(time.Second); return t }
}

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path, clock())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestStepThatNeverReturnedIsInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	for _, err := range []error{
		j.Begin("pki", "pki/"), j.End("pki", nil),
		j.Begin("cluster", ""), j.End("cluster", errors.New("etcd: disk full")),
		j.Begin("cluster", ""), // regiond dies here
		j.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	j = open(t, path)
	defer j.Close()
	steps, err := j.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0].Name != "pki" || steps[1].Name != "cluster" {
		t.Fatalf("got the steps %+v, want pki and cluster", steps)
	}
	if steps[0].Interrupted() || steps[0].Error != "" || steps[0].Detail != "pki/" {
		t.Errorf("pki: got %+v, want it ended without error", steps[0])
	}
	if !steps[1].Interrupted() || steps[1].Error != "" || steps[1].Runs != 2 {
		t.Errorf("cluster: got %+v, want it interrupted", steps[1])
	}
}

func TestIdentityIsRecordedOnceAndOthersAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	was := journal.Identity{Region: "tokyo", Address: "10.20.0.2", Node: "seed", PodCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16"}
	j := open(t, path)
	if _, ok, err := j.Identity(); ok || err != nil {
		t.Fatalf("before the first start: %v, %v", ok, err)
	}
	if err := j.CheckIdentity(was); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	defer j.Close()
	if err := j.CheckIdentity(was); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*journal.Identity)) journal.Identity {
		now := was
		change(&now)
		return now
	}
	for _, c := range []struct {
		now  journal.Identity
		want string
	}{
		{with(func(i *journal.Identity) { i.Region = "osaka" }), `created for region "tokyo"`},
		{with(func(i *journal.Identity) { i.Address = "10.20.0.9" }), "Give the host the address 10.20.0.2 again"},
		{with(func(i *journal.Identity) { i.Node = "x" }), "hostnamectl set-hostname seed"},
		{with(func(i *journal.Identity) { i.PodCIDR = "10.52.0.0/16" }), "podCIDR was 10.42.0.0/16 when the control plane was created"},
		{with(func(i *journal.Identity) { i.ServiceCIDR = "10.53.0.0/16" }), "Set it back to 10.43.0.0/16"},
	} {
		err := j.CheckIdentity(c.now)
		if !errors.Is(err, journal.ErrIdentityChanged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.now, err, c.want)
		}
	}
	if id, ok, err := j.Identity(); id != was || !ok || err != nil {
		t.Errorf("recorded %+v, %v, %v", id, ok, err)
	}
}

// Earlier versions did not record the ranges; the first start of this version does.
func TestRangesAreAddedToALandedRecord(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	defer j.Close()
	landed := []byte(`{"region":"tokyo","address":"10.20.0.2","node":"seed"}`)
	if err := j.DB().Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("bootstrap/node")).Put([]byte("identity"), landed) }); err != nil {
		t.Fatal(err)
	}
	now := journal.Identity{Region: "tokyo", Address: "10.20.0.2", Node: "seed", PodCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16"}
	if err := j.CheckIdentity(now); err != nil {
		t.Fatal(err)
	}
	if got, _, err := j.Identity(); got != now || err != nil {
		t.Errorf("recorded %+v, %v; want %+v", got, err, now)
	}
	now.PodCIDR = "10.52.0.0/16"
	if err := j.CheckIdentity(now); !errors.Is(err, journal.ErrIdentityChanged) {
		t.Errorf("another podCIDR after that: got %v, want a refusal", err)
	}
}

// After a power cut, blocks of the file may be unwritten or hold other data. On these, bbolt itself
// panics, or the process dies by SIGBUS.
func TestDamagedJournalsAreReported(t *testing.T) {
	good := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, good)
	for i := range 200 {
		if err := j.Begin(fmt.Sprintf("step %d", i), strings.Repeat("x", 200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.CheckIdentity(journal.Identity{Region: "tokyo"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for name, damage := range map[string]func(b []byte) []byte{
		"zeros": func(b []byte) []byte { clear(b[2*page:]); return b },
		"noise": func(b []byte) []byte {
			for at := 2 * page; at < len(b); at += page {
				copy(b[at:], bytes.Repeat([]byte{0xa5, 0x5a, 0x77, 0x01}, 16))
			}
			return b
		},
		"short":      func(b []byte) []byte { return b[:2*page] },
		"short by 1": func(b []byte) []byte { return b[:len(b)/2] },
		"not bbolt":  func([]byte) []byte { return bytes.Repeat([]byte("x"), 3*page) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			if err := os.WriteFile(path, damage(bytes.Clone(content)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, openErr := journal.Open(path, time.Now)
			_, readErr := journal.ReadIdentity(path)
			for what, err := range map[string]error{"Open": openErr, "ReadIdentity": readErr} {
				if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "DHCP leases") {
					t.Errorf("%s: got %v, want an error that names %s and what is lost", what, err, path)
				}
			}
		})
	}
	if j, err = journal.Open(good, time.Now); err != nil {
		t.Errorf("the undamaged journal: got %v", err)
	} else if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func TestSecondOpenIsRefusedInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	defer j.Close()
	_, err := journal.Open(path, clock())
	if err == nil || !strings.Contains(err.Error(), "held open by another process") {
		t.Fatalf("got %v", err)
	}
}

// A copy that is taken while the journal is open and written is whole.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	j := open(t, filepath.Join(dir, "journal.db"))
	defer j.Close()
	was := journal.Identity{Region: "tokyo", Address: "10.20.0.2", Node: "seed"}
	if err := j.CheckIdentity(was); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy.db")
	f, err := os.Create(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Copy(f), f.Close(), j.Begin("later", "")); err != nil {
		t.Fatal(err)
	}
	if id, err := journal.ReadIdentity(copied); err != nil || id != was {
		t.Errorf("the copy has %+v, %v; want %+v", id, err, was)
	}
}
