package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/region"
)

// fakeRegion is the enroll API and the API server in one, as far as an agent sees them.
type fakeRegion struct {
	t   *testing.T
	key *ecdsa.PrivateKey
	ca  *x509.Certificate

	mu           sync.Mutex
	refuse       string        // reason to refuse joins with
	away         bool          // the API server does not work
	life         time.Duration // of certificates
	joins        int
	renewals     int
	readmissions int
	confirmed    []byte // the public key of the certificate that was confirmed last
	denied       []byte // a public key without rights
	heartbeats   int
	lease        map[string]any
	host         region.Host
	writes       int // of the status
	refusals     int // of statuses that are too long
	longest      int // status that is taken, in bytes of its patch; 0 for any
	ahead        time.Duration
	secret       secretWorld
	anyMachine   bool // SMBIOS UUIDs are not looked at
}

func newFakeRegion(t *testing.T) (*fakeRegion, identity.Identity) {
	t.Helper()
	r := &fakeRegion{t: t, life: time.Hour}
	var err error
	if r.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	r.ca = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	return r, r.serve(httptest.NewUnstartedServer(r))
}

// serve returns the identity of a host that is to join.
func (r *fakeRegion) serve(s *httptest.Server) identity.Identity {
	if s.TLS == nil {
		s.TLS = &tls.Config{}
	}
	s.TLS.ClientAuth = tls.RequestClientCert
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	r.t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return identity.Identity{Hostname: "s1", ServerUID: "uid-1", EnrollURL: s.URL, KubernetesURL: s.URL, CA: string(ca), JoinToken: "s1.secret", Image: "trixie-0"}
}

func (r *fakeRegion) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.HasSuffix(req.URL.Path, "/namespaces/regiond-hosts/secrets") {
		r.secret.ServeHTTP(w, req)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	if r.ahead != 0 {
		w.Header().Set("Date", time.Now().Add(r.ahead).UTC().Format(http.TimeFormat))
	}
	switch path := req.URL.Path; {
	case path == enroll.PathJoin || path == enroll.PathRenew || path == enroll.PathReadmit:
		r.certify(w, req, body)
	case path == enroll.PathConfirm:
		r.confirmed = req.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo
		w.WriteHeader(http.StatusNoContent)
	case r.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case len(req.TLS.PeerCertificates) == 0 || time.Now().After(req.TLS.PeerCertificates[0].NotAfter):
		w.WriteHeader(http.StatusUnauthorized)
	case bytes.Equal(req.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo, r.denied):
		w.WriteHeader(http.StatusForbidden)
	case strings.HasSuffix(path, "/hosts/s1") && req.Method == http.MethodGet:
		if err := json.NewEncoder(w).Encode(r.host); err != nil {
			r.t.Error(err)
		}
	case strings.HasSuffix(path, "/hosts/s1/status") && req.Method == http.MethodPatch:
		r.patch(w, body)
	case strings.HasSuffix(path, "/namespaces/regiond-hosts/leases/s1") && req.Method == http.MethodPatch:
		r.heartbeats++
		var patch struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(body, &patch); err != nil {
			r.t.Error(err)
		}
		r.lease = patch.Spec
	default:
		r.t.Errorf("%s %s", req.Method, path)
	}
}

// patch merges a patch into the status (RFC 7396).
func (r *fakeRegion) patch(w http.ResponseWriter, body []byte) {
	if r.longest > 0 && len(body) > r.longest {
		r.refusals++
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(w, `{"message":"the status of a host may have %d characters"}`, r.longest)
		return
	}
	r.writes++
	stored, err := json.Marshal(r.host)
	var host, change map[string]any
	if err = errors.Join(err, json.Unmarshal(stored, &host), json.Unmarshal(body, &change)); err != nil {
		r.t.Error(err)
		return
	}
	stored, err = json.Marshal(merge(host, change))
	r.host = region.Host{}
	if err = errors.Join(err, json.Unmarshal(stored, &r.host)); err != nil {
		r.t.Error(err)
	}
}

func merge(into, change map[string]any) map[string]any {
	for name, v := range change {
		inner, object := v.(map[string]any)
		switch {
		case v == nil:
			delete(into, name)
		case object:
			have, _ := into[name].(map[string]any)
			if have == nil {
				have = map[string]any{}
			}
			into[name] = merge(have, inner)
		default:
			into[name] = v
		}
	}
	return into
}

func (r *fakeRegion) certify(w http.ResponseWriter, req *http.Request, body []byte) {
	var in enroll.JoinRequest
	if err := json.Unmarshal(body, &in); err != nil || !r.anyMachine && in.SystemUUID != "11111111-2222-3333-4444-555555555555" {
		r.t.Errorf("%v %+v", err, in)
	}
	switch req.URL.Path {
	case enroll.PathRenew:
		r.renewals++
		if len(req.TLS.PeerCertificates) == 0 {
			r.t.Error("renewal without a certificate")
		}
	case enroll.PathReadmit:
		r.readmissions++
		if len(req.TLS.PeerCertificates) > 0 {
			r.t.Error("readmission with the expired certificate, which TLS refuses")
		}
		if r.refuse != "" {
			w.WriteHeader(http.StatusForbidden)
			if err := json.NewEncoder(w).Encode(enroll.Error{Reason: r.refuse, Message: "m"}); err != nil {
				r.t.Error(err)
			}
			return
		}
	default:
		r.joins++
		if r.refuse != "" || req.Header.Get("Authorization") != "Bearer s1.secret" {
			w.WriteHeader(http.StatusServiceUnavailable)
			if err := json.NewEncoder(w).Encode(enroll.Error{Reason: r.refuse, Message: "m"}); err != nil {
				r.t.Error(err)
			}
			return
		}
	}
	block, _ := pem.Decode([]byte(in.CSR))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if want := enroll.Subject("s1", enroll.KeyID(csr.RawSubjectPublicKeyInfo)); err != nil || csr.Subject.String() != want.String() {
		r.t.Errorf("got subject %s %v, want %s", csr.Subject, err, want)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(r.life)}
	der, err := x509.CreateCertificate(rand.Reader, c, r.ca, csr.PublicKey, r.key)
	if err != nil {
		r.t.Error(err)
	}
	if err := json.NewEncoder(w).Encode(enroll.JoinResponse{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}); err != nil {
		r.t.Error(err)
	}
}

// see waits for something of the region.
func (r *fakeRegion) see(what string, f func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		r.mu.Lock()
		ok := f()
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not seen: %s", what)
		}
	}
}

func (r *fakeRegion) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}
