//go:build integration

package cluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// issuedAgo is the age of a seed's first certificates: still valid, but due for eight weeks.
const issuedAgo = 300 * 24 * time.Hour

// renewalClock is the clock of a regiond's PKI and of its daily check of certificates. A first
// start issues certificates that are issuedAgo old; SIGUSR1 sets the PKI's clock to the present and
// advances the daily check by a day.
type renewalClock struct {
	behind atomic.Int64 // nanoseconds
	days   *clocktesting.FakeClock
}

func newRenewalClock(dataDir string) *renewalClock {
	c := &renewalClock{days: clocktesting.NewFakeClock(time.Now())}
	if _, err := os.Stat(filepath.Join(dataDir, "pki")); errors.Is(err, fs.ErrNotExist) {
		c.behind.Store(int64(issuedAgo))
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	go func() {
		for range told {
			c.behind.Store(0)
			c.days.Step(24 * time.Hour)
		}
	}()
	return c
}

func (c *renewalClock) now() time.Time { return time.Now().Add(-time.Duration(c.behind.Load())) }

// served prints the serial numbers of the certificates that servers present.
func served(addresses []string) error {
	for _, a := range addresses {
		conn, err := tls.Dial("tcp", a, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		fmt.Println(conn.ConnectionState().PeerCertificates[0].SerialNumber.Text(16))
		if err := conn.Close(); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}

func (s *seed) testRenewal(t *testing.T) {
	addresses := []string{address + ":6443", address + ":10250", "127.0.0.1:2379", "127.0.0.1:2380", "127.0.0.1:10257", "127.0.0.1:10259"}
	files := []string{"kube-apiserver", "kubelet", "etcd/server", "etcd/peer", "kube-controller-manager", "kube-scheduler"}
	pods, before := s.containers(t), s.components()
	old := strings.Fields(s.part(t, append([]string{"served"}, addresses...)...))
	if want := s.issued(t, files); !slices.Equal(old, want) {
		t.Errorf("before: got %v served, want the issued %v", old, want)
	}
	began := time.Now()
	if err := s.regiond.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, 3*time.Minute, func() error {
		for i, now := range s.components() {
			if again := now.PID != before[i].PID; !now.Ready || again == (now.Name == "containerd") {
				return fmt.Errorf("not renewed: %+v, was %+v", now, before[i])
			}
		}
		return nil
	})
	t.Logf("renewed and restarted in %.1f s", time.Since(began).Seconds())
	// One at a time, in the order in which they start.
	restarted := slices.DeleteFunc(s.components(), func(c supervisor.Component) bool { return c.Name == "containerd" })
	for i, c := range restarted {
		if c.Restarts != 1 || i > 0 && c.Since.Before(restarted[i-1].Since) {
			t.Errorf("got %d restarts of %s, the last at %s; want one, after that of %s", c.Restarts, c.Name, c.Since, restarted[max(0, i-1)].Name)
		}
	}
	now := strings.Fields(s.part(t, append([]string{"served"}, addresses...)...))
	for i, serial := range now {
		if slices.Contains(old, serial) {
			t.Errorf("%s still presents certificate %s", addresses[i], serial)
		}
	}
	if want := s.issued(t, files); !slices.Equal(now, want) {
		t.Errorf("after: got %v served, want the issued %v", now, want)
	}
	s.eventually(t, time.Minute, func() error {
		out, err := s.tryKubectl("get", "node", "seed", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
		if err == nil && out != "True" {
			err = fmt.Errorf("node Ready: %q", out)
		}
		return err
	})
	if now := s.containers(t); !slices.Equal(now, pods) {
		t.Errorf("containers were replaced:\nbefore %v\nafter  %v", pods, now)
	}
	s.testPods(t)
}

// issued reads the serial numbers of certificates below the PKI.
func (s *seed) issued(t *testing.T, names []string) []string {
	t.Helper()
	var out []string
	for _, n := range names {
		content, err := os.ReadFile(filepath.Join(s.data, "pki", n+".crt"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(content)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if time.Until(certificate.NotAfter) < 0 {
			t.Errorf("%s has expired", n)
		}
		out = append(out, certificate.SerialNumber.Text(16))
	}
	return out
}
