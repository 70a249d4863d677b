package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/pki"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) time() time.Time { return c.now }

func load(t *testing.T, dir string, c *clock) *pki.PKI {
	t.Helper()
	p, err := pki.Load(dir, pki.WithClock(c.time))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func issue(t *testing.T, a *pki.Authority, name string, r pki.Request) (*x509.Certificate, []byte) {
	t.Helper()
	pair, err := a.Issue(name, r)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, read(t, pair.CertFile)), read(t, pair.KeyFile)
}

func parse(t *testing.T, content []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(content)
	if block == nil {
		t.Fatalf("no PEM block in %q", content)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path] = string(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLoadCreatesOnceAndKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	c := &clock{start}
	load(t, dir, c)
	first := snapshot(t, dir)
	for _, f := range []string{"ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key", "front-proxy/ca.crt", "front-proxy/ca.key", "sa.key", "sa.pub"} {
		if first[filepath.Join(dir, f)] == "" {
			t.Errorf("%s is missing", f)
		}
	}
	c.now = start.Add(24 * time.Hour)
	load(t, dir, c)
	if second := snapshot(t, dir); len(second) != len(first) {
		t.Errorf("got %d files, want %d as before", len(second), len(first))
	} else {
		for path, content := range first {
			if second[path] != content {
				t.Errorf("%s changed", path)
			}
		}
	}
}

func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.Mkdir(dir, 0o755); err != nil { // created earlier by someone else
		t.Fatal(err)
	}
	p := load(t, dir, &clock{start})
	issue(t, p.Cluster, "one", pki.Request{CN: "one", Usages: pki.Client})
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestIssuedCertificate(t *testing.T) {
	p := load(t, t.TempDir(), &clock{start})
	cert, _ := issue(t, p.Cluster, "server", pki.Request{CN: "kube-apiserver", Org: []string{"a", "b"}, SANs: []string{"localhost", "10.0.0.1", "fd00::1"}, Usages: pki.Server})
	if cert.Subject.CommonName != "kube-apiserver" || !slices.Equal(cert.Subject.Organization, []string{"a", "b"}) {
		t.Errorf("subject %s", cert.Subject)
	}
	if !cert.NotBefore.Equal(start.Add(-time.Hour)) || !cert.NotAfter.Equal(start.AddDate(1, 0, 0)) {
		t.Errorf("valid from %s to %s", cert.NotBefore, cert.NotAfter)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.Cluster.Certificate())
	for _, host := range []string{"localhost", "10.0.0.1", "fd00::1"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			t.Errorf("as server %s: %v", host, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a server's certificate is accepted as a client's")
	}
	// Authorities do not trust each other.
	others := x509.NewCertPool()
	others.AddCert(p.Etcd.Certificate())
	others.AddCert(p.FrontProxy.Certificate())
	if _, err := cert.Verify(x509.VerifyOptions{Roots: others, CurrentTime: start}); err == nil {
		t.Error("the cluster's certificate is trusted by etcd's or the front proxy's authority")
	}
}

func TestKeepOrReissue(t *testing.T) {
	base := pki.Request{CN: "one", Org: []string{"a", "b"}, SANs: []string{"x", "10.0.0.1"}, Usages: pki.Client | pki.Server}
	life := 365*24*time.Hour + time.Hour
	for name, c := range map[string]struct {
		change func(*pki.Request)
		after  time.Duration
		kept   bool
	}{
		"same":                   {kept: true},
		"other order":            {change: func(r *pki.Request) { r.SANs, r.Org = []string{"10.0.0.1", "x"}, []string{"b", "a"} }, kept: true},
		"more than a third left": {after: life*2/3 - 2*time.Hour, kept: true},
		"less than a third left": {after: life * 2 / 3},
		"expired":                {after: 2 * life},
		"clock set back":         {after: -48 * time.Hour},
		"another name":           {change: func(r *pki.Request) { r.CN = "two" }},
		"another group":          {change: func(r *pki.Request) { r.Org = []string{"a"} }},
		"another address":        {change: func(r *pki.Request) { r.SANs = []string{"x", "10.0.0.2"} }},
		"one more address":       {change: func(r *pki.Request) { r.SANs = []string{"x", "10.0.0.1", "y"} }},
		"another usage":          {change: func(r *pki.Request) { r.Usages = pki.Client }},
	} {
		t.Run(name, func(t *testing.T) {
			now := &clock{start}
			p := load(t, t.TempDir(), now)
			before, keyBefore := issue(t, p.Cluster, "one", base)
			now.now = start.Add(c.after)
			request := base
			if c.change != nil {
				c.change(&request)
			}
			after, keyAfter := issue(t, p.Cluster, "one", request)
			if kept := bytes.Equal(before.Raw, after.Raw); kept != c.kept || bytes.Equal(keyBefore, keyAfter) != c.kept {
				t.Errorf("kept: %t, want %t", kept, c.kept)
			}
			if now.now.Before(after.NotBefore) || now.now.After(after.NotAfter) {
				t.Errorf("not valid now: %s to %s", after.NotBefore, after.NotAfter)
			}
		})
	}
}

func TestReissuedForAnotherAuthority(t *testing.T) {
	dir := t.TempDir()
	request := pki.Request{CN: "one", Usages: pki.Client}
	before, _ := issue(t, load(t, dir, &clock{start}).Cluster, "one", request)
	for _, f := range []string{"ca.crt", "ca.key"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	p := load(t, dir, &clock{start})
	after, _ := issue(t, p.Cluster, "one", request)
	if bytes.Equal(before.Raw, after.Raw) || after.CheckSignatureFrom(p.Cluster.Certificate()) != nil {
		t.Error("a certificate of a removed authority was kept")
	}
}

// A killed start leaves temporary files, or only some of the files.
func TestResumesAfterAKill(t *testing.T) {
	for _, left := range [][]string{
		nil,
		{"ca.key"},
		{"ca.key", "ca.crt"},
		{"ca.key", "ca.crt", "etcd/ca.key", "etcd/ca.crt", "front-proxy/ca.key", "front-proxy/ca.crt", "sa.key"},
	} {
		t.Run(strings.Join(left, ","), func(t *testing.T) {
			dir := t.TempDir()
			load(t, dir, &clock{start})
			before := snapshot(t, dir)
			for path := range before {
				name, err := filepath.Rel(dir, path)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(left, name) {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			half := filepath.Join(dir, ".pki-tmp-123")
			if err := os.WriteFile(half, []byte("-----BEGIN EC PRI"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := load(t, dir, &clock{start})
			issue(t, p.Cluster, "one", pki.Request{CN: "one", Usages: pki.Client})
			if _, err := os.Stat(half); !os.IsNotExist(err) {
				t.Errorf("the partial file: got %v, want it removed", err)
			}
			for _, name := range left {
				path := filepath.Join(dir, name)
				if string(read(t, path)) != before[path] {
					t.Errorf("%s changed", name)
				}
			}
		})
	}
}

// A kill between the two renames of Issue leaves an old certificate with a new key.
func TestIssueRepairsAMismatchedPair(t *testing.T) {
	p := load(t, t.TempDir(), &clock{start})
	request := pki.Request{CN: "one", Usages: pki.Client}
	pair, err := p.Cluster.Issue("one", request)
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.Cluster.Issue("two", request)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pair.KeyFile, read(t, other.KeyFile), 0o600); err != nil {
		t.Fatal(err)
	}
	before := read(t, pair.CertFile)
	if _, err := p.Cluster.Issue("one", request); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, read(t, pair.CertFile)) {
		t.Error("a certificate without its key was kept")
	}
}

func TestRefusesADamagedAuthority(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"key missing":  func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "ca.key")) },
		"key garbled":  func(t *testing.T, dir string) { write(t, filepath.Join(dir, "ca.key"), "nonsense") },
		"cert garbled": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "ca.crt"), "nonsense") },
		"another's key": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "ca.key"), string(read(t, filepath.Join(dir, "etcd/ca.key"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			load(t, dir, &clock{start})
			damage(t, dir)
			before := snapshot(t, dir)
			if _, err := pki.Load(dir); err == nil || !strings.Contains(err.Error(), "backup") {
				t.Errorf("got %v, want an error that says what to do", err)
			}
			if after := snapshot(t, dir); len(after) != len(before) {
				t.Error("files were created")
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSign(t *testing.T) {
	c := &clock{start}
	p := load(t, t.TempDir(), c)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := pki.Request{CN: "regiond:host:a", Org: []string{"regiond:hosts"}, Usages: pki.Client}
	signed, err := p.Cluster.Sign(key.Public(), request, 90*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, signed)
	if !key.PublicKey.Equal(cert.PublicKey) || cert.Subject.CommonName != request.CN || !cert.NotAfter.Equal(start.Add(90*24*time.Hour)) {
		t.Errorf("got %s until %s", cert.Subject, cert.NotAfter)
	}
	// No certificate outlives its authority.
	c.now = p.Cluster.Certificate().NotAfter.Add(-time.Hour)
	if signed, err = p.Cluster.Sign(key.Public(), request, 90*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if end := parse(t, signed).NotAfter; end.After(p.Cluster.Certificate().NotAfter) {
		t.Errorf("got the expiry %s, want not after the authority's", end)
	}
	for _, bad := range []pki.Request{{Usages: pki.Client}, {CN: "x"}} {
		if _, err := p.Cluster.Sign(key.Public(), bad, time.Hour); err == nil {
			t.Errorf("got %+v signed, want a refusal", bad)
		}
	}
}

func TestIssueRefusesNames(t *testing.T) {
	p := load(t, t.TempDir(), &clock{start})
	for _, name := range []string{"", "ca", "../x", "a/b"} {
		if _, err := p.Cluster.Issue(name, pki.Request{CN: "x", Usages: pki.Client}); err == nil {
			t.Errorf("got %q issued, want a refusal", name)
		}
	}
}
