package node

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/enroll"
)

// A region that was restored from a backup does not know the certificate that a host got since. The host asks for another one, by
// a connection of its own, and not again and again.
func TestDeniedHostAsksForAnotherCertificate(t *testing.T) {
	r, id := newFakeRegion(t)
	dir := t.TempDir()
	writeIdentity(t, dir, id)
	var ahead atomic.Int64
	clock := func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }
	stop := startAgent(t, dir, io.Discard, clock)
	defer func() { stop() }()
	r.see("that the certificate arrived", func() bool { return r.joins == 1 && r.heartbeats > 0 })
	both, err := os.ReadFile(filepath.Join(dir, "agent", "client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		t.Fatal(err)
	}
	r.set(func() { r.denied = pair.Leaf.RawSubjectPublicKeyInfo })
	// denied waits until the agent has been denied after what is done by then, and has done what follows from it.
	denied := func() {
		var seen time.Time
		for now, turns := time.Now().Add(time.Duration(ahead.Load())), 0; turns < 3; <-time.After(5 * time.Millisecond) {
			state, err := readState(filepath.Join(dir, "run", "agent.json"))
			if errors.Is(err, fs.ErrNotExist) {
				continue // not yet
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(state.Error, "403") && state.Time.After(now) && state.Time.After(seen) {
				seen = state.Time
				turns++
			}
			if state.Time.Sub(now) > 20*time.Second {
				t.Fatalf("not denied: %+v", state)
			}
		}
	}
	denied()
	r.set(func() {
		if r.renewals != 0 {
			t.Errorf("denied for a moment: got %d renewals, want none", r.renewals)
		}
	})
	beats := 0
	ahead.Store(int64(deniedFor))
	r.see("another certificate, by which it is heard", func() bool { return r.renewals == 1 && len(r.confirmed) > 0 && !bytes.Equal(r.confirmed, r.denied) })
	r.set(func() { beats = r.heartbeats })
	r.see("heartbeats", func() bool { return r.heartbeats > beats+5 })

	// What is denied for another reason is not asked for all the time.
	r.set(func() { r.denied = r.confirmed })
	denied()
	ahead.Add(int64(20 * deniedFor))
	denied()
	r.set(func() {
		if r.renewals != 1 {
			t.Errorf("denied again within the hour: got %d renewals, want 1", r.renewals)
		}
	})
	ahead.Add(int64(deniedAgain))
	r.see("a certificate after an hour", func() bool { return r.renewals == 2 })
}

// A host that waits for its readmission asks every minute, also after its region was away for hours.
func TestRetryAfter(t *testing.T) {
	refused := func(reason string) error { return fmt.Errorf("enroll: %w", &enroll.Error{Status: 403, Reason: reason}) }
	away := errors.New("no route to host")
	for _, tt := range []struct {
		name string
		errs []error
		want time.Duration
	}{
		{"the region is away", []error{away}, 2 * time.Second},
		{"the region is still away", []error{away, away, away}, 8 * time.Second},
		{"the region is away for hours", slices.Repeat([]error{away}, 200), 5 * time.Minute},
		{"too many requests", []error{refused(enroll.ReasonTooMany)}, 2 * time.Second},
		{"not readmitted", []error{refused(enroll.ReasonNotReadmitted)}, time.Minute},
		{"not readmitted, after hours", append(slices.Repeat([]error{away}, 200), refused(enroll.ReasonNotReadmitted)), time.Minute},
		{"not readmitted for hours, then the region restarts", append(slices.Repeat([]error{refused(enroll.ReasonNotReadmitted)}, 200), away), 2 * time.Second},
		{"another machine's", []error{refused(enroll.ReasonWrongServer)}, 5 * time.Minute},
	} {
		b := &backoff.Backoff{First: firstRetry, Most: mostRetry}
		var got time.Duration
		for _, err := range tt.errs {
			got = retryAfter(err, b)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
