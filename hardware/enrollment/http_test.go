package enrollment_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
)

func TestMalformedBodies(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	good, err := json.Marshal(report(uuid1, mac1))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		body   []byte
		code   int
		reason string
	}{
		{"empty", nil, 400, enroll.ReasonMalformed},
		{"no JSON", []byte("hello"), 400, enroll.ReasonMalformed},
		{"cut off", good[:len(good)/2], 400, enroll.ReasonMalformed},
		{"two values", append(append([]byte{}, good...), good...), 400, enroll.ReasonMalformed},
		{"garbage behind", append(append([]byte{}, good...), "xx"...), 400, enroll.ReasonMalformed},
		{"unknown field", []byte(`{"version":"1","root":true}`), 400, enroll.ReasonMalformed},
		{"wrong type", []byte(`{"version":1}`), 400, enroll.ReasonMalformed},
		{"array", []byte(`[]`), 400, enroll.ReasonMalformed},
		{"too large", append([]byte(`{"version":"`), bytes.Repeat([]byte("x"), enroll.MaxBody)...), 413, enroll.ReasonTooLarge},
		{"too large behind", append(append([]byte{}, good...), bytes.Repeat([]byte(" "), enroll.MaxBody)...), 413, enroll.ReasonTooLarge},
		{"deep", bytes.Repeat([]byte("["), 100_000), 400, enroll.ReasonMalformed},
	} {
		w.now = w.now.Add(time.Minute)
		if code, reason := w.post(enroll.PathInventory, ticket.Token, tt.body, nil); code != tt.code || reason != tt.reason {
			t.Errorf("%s: %d %s, want %d %s", tt.name, code, reason, tt.code, tt.reason)
		}
	}
	url := w.serve(t)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(w.signer.pem)}}}
	for path, code := range map[string]int{enroll.PathJoin: 405, "/": 404, "/v1/../v1/join": 405, "/metrics": 404} {
		resp, err := c.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("GET %s: %d, want %d", path, resp.StatusCode, code)
		}
	}
	c.CloseIdleConnections()
	// What is not TLS at all is dropped.
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
}

// A renewed certificate is used by the next connection.
func TestCertificateIsAskedForAtEachHandshake(t *testing.T) {
	w := newWorld(t)
	address := strings.TrimPrefix(w.serve(t), "https://")
	var serials []string
	for range 2 {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool(w.signer.pem)})
		if err != nil {
			t.Fatal(err)
		}
		serials = append(serials, conn.ConnectionState().PeerCertificates[0].SerialNumber.String())
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if serials[0] == serials[1] {
		t.Error("the second connection was given the first one's certificate")
	}
}

func pool(pem []byte) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(pem)
	return p
}

func TestRateLimit(t *testing.T) {
	w := newWorld(t)
	last := ""
	for range 12 {
		_, last = w.send(enroll.PathJoin, "s1.guess", enroll.JoinRequest{}, nil)
	}
	if last != enroll.ReasonTooMany {
		t.Errorf("after a dozen wrong tokens: %q", last)
	}
	w.now = w.now.Add(time.Minute)
	if _, reason := w.send(enroll.PathJoin, "s1.guess", enroll.JoinRequest{}, nil); reason != enroll.ReasonTokenUnknown {
		t.Errorf("a minute later: %q", reason)
	}
}

// A rack that waits for its readmission behind one address asks every minute: nobody behind it is kept out for that. Nor is by a
// retired host, whose certificate is valid and which goes on asking for a new one.
func TestProvenHostsKeepNobodyOut(t *testing.T) {
	w := newWorld(t)
	key := newKey(t)
	certificate := w.joined(key)
	w.now = w.now.Add(hostkey.Validity + time.Hour)
	for i := range 60 {
		w.now = w.now.Add(time.Second)
		if code, reason := w.send(enroll.PathReadmit, "", enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}, nil); code != 403 || reason != enroll.ReasonNotReadmitted {
			t.Fatalf("request %d of waiting hosts: got %d %s, want 403 %s", i, code, reason, enroll.ReasonNotReadmitted)
		}
	}
	url := w.serve(t)
	w.change(func(s *region.Server) { s.Spec.Retired = true })
	for i := range 20 {
		if err := w.renewal(url, key, certificate); !refusedFor(err, enroll.ReasonWrongServer) {
			t.Fatalf("request %d of a retired host: got %v, want %s", i, err, enroll.ReasonWrongServer)
		}
	}
	w.change(func(s *region.Server) { s.Spec.Retired = false })
	w.open()
	if code, reason := w.send(enroll.PathReadmit, "", enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}, nil); code != 200 {
		t.Errorf("readmitted: %d %s", code, reason)
	}
	// Whoever proves nothing is kept out.
	last := ""
	for range 12 {
		_, last = w.send(enroll.PathReadmit, "", enroll.JoinRequest{CSR: csr(t, newKey(t)), SystemUUID: uuid1}, nil)
	}
	if last != enroll.ReasonTooMany {
		t.Errorf("after a dozen unknown keys: got %q, want %s", last, enroll.ReasonTooMany)
	}
}

// Nobody fills the log, neither by guesses nor by requests that are refused unread.
func TestRefusalsInTheLogAreBounded(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t)
	w.server.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 200 {
		w.send(enroll.PathJoin, "s1.guess", enroll.JoinRequest{}, nil)
	}
	if got := strings.Count(log.String(), "\n"); got == 0 || got > 10 {
		t.Errorf("200 refusals at once: got %d lines in the log, want 1 to 10", got)
	}
}

// Tokens never reach the log.
func TestLogHoldsNoToken(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t)
	w.server.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	install := w.installed(uuid1, "SN1", mac1)
	token := install.Identity.JoinToken
	w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(t, newKey(t)), SystemUUID: uuid2}, nil)
	w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(t, newKey(t)), SystemUUID: uuid1}, nil)
	w.send(enroll.PathJoin, token+"x", enroll.JoinRequest{CSR: csr(t, newKey(t)), SystemUUID: uuid1}, nil)
	_, random, _ := strings.Cut(token, ".")
	if log.Len() == 0 || strings.Contains(log.String(), random) {
		t.Errorf("log: %s", log.String())
	}
	if !strings.Contains(log.String(), "WrongServer") || !strings.Contains(log.String(), "host joined") {
		t.Errorf("the log does not tell what happened: %s", log.String())
	}
}

func FuzzHandler(f *testing.F) {
	good, err := json.Marshal(report(uuid1, mac1))
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range [][]byte{good, []byte(`{"csr":"x","systemUUID":"y"}`), []byte(`{"stage":"Writing","bytesWritten":1,"bytesTotal":2}`), nil} {
		f.Add(body, "s1.x")
	}
	w := newWorld(f)
	ticket := w.netboot(uuid1, "SN1", mac1)
	paths := []string{enroll.PathInventory, enroll.PathProgress, enroll.PathJoin, enroll.PathRenew}
	f.Fuzz(func(t *testing.T, body []byte, token string) {
		w.t = t
		if strings.ContainsAny(token, "\r\n\x00") {
			return
		}
		for _, path := range paths {
			w.now = w.now.Add(time.Minute)
			for _, token := range []string{token, ticket.Token} {
				if code, reason := w.post(path, token, body, nil); code >= 500 {
					t.Errorf("%s: %d %s", path, code, reason)
				}
			}
		}
		if w.signer.signed > 0 {
			t.Error("a certificate was signed")
		}
	})
}

func TestCleanup(t *testing.T) {
	w := newWorld(t)
	w.installed(uuid1, "SN1", mac1)
	s := &region.Server{}
	if err := w.get(s, "", "s1"); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Cleanup(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	var left corev1.SecretList
	if err := w.api.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	for _, secret := range left.Items {
		if secret.Name != hostkey.Name("s1") { // which goes with the server itself
			t.Errorf("Secret %s is left", secret.Name)
		}
	}
}
