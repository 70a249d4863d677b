package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"regiond.dev/regiond/bootstrap/pki"
)

const day = 24 * time.Hour

// A certificate is due at two thirds of its lifetime, counted from its last renewal.
func TestRenew(t *testing.T) {
	c := &clock{start}
	dir := t.TempDir()
	p := load(t, dir, c)
	client := pki.Request{CN: "one", Usages: pki.Client}
	issue(t, p.Cluster, "forgotten", client)
	p = load(t, dir, c) // another process, which has not issued it
	first, _ := issue(t, p.Cluster, "one", client)
	issue(t, p.Etcd, "server", pki.Request{CN: "etcd", Usages: pki.Server})
	c.now = start.Add(100 * day)
	issue(t, p.FrontProxy, "client", client)
	for _, step := range []struct {
		name  string
		after time.Duration // the start
		want  []string
	}{
		{"young", 100 * day, nil},
		{"before two thirds", 243 * day, nil},
		{"after two thirds", 244 * day, []string{"etcd/server", "one"}},
		{"at once again", 244 * day, nil},
		{"the younger one", 344 * day, []string{"front-proxy/client"}},
		{"a sleep of two years", 1100 * day, []string{"etcd/server", "front-proxy/client", "one"}},
		{"the clock set back", 900 * day, []string{"etcd/server", "front-proxy/client", "one"}},
	} {
		c.now = start.Add(step.after)
		got, err := p.Renew()
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("%s: renewed %v, want %v (%v)", step.name, got, step.want, err)
		}
	}
	now := parse(t, read(t, dir+"/one.crt"))
	roots := x509.NewCertPool()
	roots.AddCert(p.Cluster.Certificate())
	if _, err := now.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: c.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || now.Subject.CommonName != "one" {
		t.Errorf("renewed as %s: %v", now.Subject, err)
	}
	if now.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the serial number did not change")
	}
}

// A certificate that can't be written keeps its old pair and does not block the others.
func TestRenewContinuesAfterAFailure(t *testing.T) {
	c := &clock{start}
	p := load(t, t.TempDir(), c)
	client := pki.Request{CN: "one", Usages: pki.Client}
	for _, name := range []string{"a", "b", "c"} {
		issue(t, p.Cluster, name, client)
	}
	broken, err := p.Cluster.Issue("b", client)
	if err != nil {
		t.Fatal(err)
	}
	// A folder at the path of the key can't be replaced with a file.
	remove(t, broken.KeyFile)
	if err := os.Mkdir(broken.KeyFile, 0o700); err != nil {
		t.Fatal(err)
	}
	before := read(t, broken.CertFile)
	c.now = start.Add(300 * day)
	if got, err := p.Renew(); err == nil || !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %v renewed: %v", got, err)
	}
	if !bytes.Equal(before, read(t, broken.CertFile)) {
		t.Error("a certificate was replaced without its key")
	}
	remove(t, broken.KeyFile)
	if got, err := p.Renew(); err != nil || !slices.Equal(got, []string{"b"}) {
		t.Errorf("tried again: renewed %v: %v", got, err)
	}
	if left, err := os.ReadDir(p.Dir()); err != nil || len(left) != 12 { // four pairs, sa.key, sa.pub and two folders
		t.Errorf("left in the folder: %v %v", left, err)
	}
}

func TestFollow(t *testing.T) {
	c := &clock{start}
	p := load(t, t.TempDir(), c)
	if _, err := (pki.Pair{CertFile: "none", KeyFile: "none"}).Follow(); err == nil {
		t.Error("got no error for a missing pair")
	}
	pair, err := p.Cluster.Issue("serving", pki.Request{CN: "serving", SANs: []string{"localhost"}, Usages: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	get, err := pair.Follow()
	if err != nil {
		t.Fatal(err)
	}
	now := func() *tls.Certificate {
		t.Helper()
		cert, err := get(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	first := now()
	if now() != first {
		t.Error("the pair was reloaded although it did not change")
	}
	key, cert := read(t, pair.KeyFile), read(t, pair.CertFile)
	c.now = start.Add(300 * day)
	if _, err := p.Renew(); err != nil {
		t.Fatal(err)
	}
	second := now()
	if bytes.Equal(second.Certificate[0], first.Certificate[0]) || !bytes.Equal(second.Certificate[0], parse(t, read(t, pair.CertFile)).Raw) {
		t.Error("got the old certificate, want the renewed one")
	}
	// An invalid or missing pair leaves the last valid one in use.
	write(t, pair.KeyFile, string(key))
	remove(t, pair.CertFile)
	if now() != second {
		t.Error("got a different certificate while the file was missing")
	}
	write(t, pair.CertFile, "nonsense")
	if now() != second {
		t.Error("got a different certificate for an invalid file")
	}
	remove(t, pair.CertFile)
	write(t, pair.CertFile, string(cert))
	if !bytes.Equal(now().Certificate[0], first.Certificate[0]) {
		t.Error("got the old certificate, want the new valid one")
	}
}

// regiond's own client of the API server is not restarted: it presents the renewed certificate on
// new connections and closes old ones.
func TestClientFollowsItsKubeconfig(t *testing.T) {
	interval := transport.CertCallbackRefreshDuration
	transport.CertCallbackRefreshDuration = 10 * time.Millisecond
	t.Cleanup(func() { transport.CertCallbackRefreshDuration = interval })
	c := &clock{time.Now()} // both ends use real time
	dir := t.TempDir()
	p := load(t, filepath.Join(dir, "pki"), c)
	pair, err := p.Cluster.Issue("server", pki.Request{CN: "server", SANs: []string{"127.0.0.1"}, Usages: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].SerialNumber)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)

	c.now = time.Now().Add(-300 * day) // due, but still valid
	admin, err := p.Cluster.Issue("admin", pki.Request{CN: "admin", Usages: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := p.Cluster.WriteKubeconfig(kubeconfig, pki.Kubeconfig{Server: server.URL, Cluster: "c", User: "u", Pair: admin}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		t.Helper()
		response, err := client.Get(server.URL)
		if err != nil {
			return err.Error() // a connection that is being closed
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err.Error()
		}
		return string(body)
	}
	if got, want := shown(), parse(t, read(t, admin.CertFile)).SerialNumber.String(); got != want {
		t.Fatalf("got the certificate %s presented, want the issued %s", got, want)
	}
	c.now = time.Now()
	if renewed, err := p.Renew(); err != nil || !slices.Equal(renewed, []string{"admin"}) {
		t.Fatalf("renewed %v: %v", renewed, err)
	}
	want, got := parse(t, read(t, admin.CertFile)).SerialNumber.String(), ""
	for deadline := time.Now().Add(20 * time.Second); got != want; got = shown() {
		if time.Now().After(deadline) {
			t.Fatalf("got the certificate %s presented, want the renewed %s", got, want)
		}
	}
}
