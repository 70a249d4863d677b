package enrollment_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// joined takes a server to the certificate of its host's key.
func (w *world) joined(key *ecdsa.PrivateKey) (certificate string) {
	w.t.Helper()
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	var r enroll.JoinResponse
	if code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(w.t, key), SystemUUID: uuid1}, &r); code != 200 {
		w.t.Fatal(code, reason)
	}
	return r.Certificate
}

// readmit asks like the agent of a host whose certificate has expired, a minute after the last request.
func (w *world) readmit(key *ecdsa.PrivateKey, uuid string) (int, string) {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	return w.send(enroll.PathReadmit, "", enroll.JoinRequest{CSR: csr(w.t, key), SystemUUID: uuid}, nil)
}

// forget removes a Secret of regiond's.
func (w *world) forget(name string) {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: name}}); err != nil {
		w.t.Fatal(err)
	}
}

// plan is the operator's view; a refusal is returned as its text.
func (w *world) plan() (*enrollment.Readmission, string) {
	p, err := enrollment.PlanReadmission(w.t.Context(), w.api, "s1", w.now)
	if err != nil {
		return nil, err.Error()
	}
	return p, ""
}

func (w *world) open() {
	w.t.Helper()
	p, refused := w.plan()
	if refused != "" {
		w.t.Fatal(refused)
	}
	if err := p.Open(w.t.Context(), w.api); err != nil {
		w.t.Fatal(err)
	}
}

// change edits the server.
func (w *world) change(f func(*region.Server)) {
	w.t.Helper()
	s := &region.Server{}
	if err := w.get(s, "", "s1"); err != nil {
		w.t.Fatal(err)
	}
	f(s)
	status := s.Status
	if err := w.api.Update(w.t.Context(), s); err != nil {
		w.t.Fatal(err)
	}
	s.Status = status
	if err := w.api.Status().Update(w.t.Context(), s); err != nil {
		w.t.Fatal(err)
	}
}

func TestReadmit(t *testing.T) {
	w := newWorld(t)
	key, other := newKey(t), newKey(t)
	w.joined(key)
	if _, refused := w.plan(); !strings.Contains(refused, "is valid until") {
		t.Errorf("plan while the certificate is valid: %q", refused)
	}
	w.now = w.now.Add(hostkey.Validity + time.Hour)
	signed := w.signer.signed
	for name, c := range map[string]struct {
		key    *ecdsa.PrivateKey
		uuid   string
		reason string
	}{
		"not readmitted":                     {key, uuid1, enroll.ReasonNotReadmitted},
		"another key":                        {other, uuid1, enroll.ReasonWrongServer},
		"the key's copy on another machine":  {key, uuid2, enroll.ReasonWrongServer},
		"the key's copy without system UUID": {key, "", enroll.ReasonWrongServer},
	} {
		if code, reason := w.readmit(c.key, c.uuid); code != 403 || reason != c.reason {
			t.Errorf("%s: got %d %s, want 403 %s", name, code, reason, c.reason)
		}
	}
	p, refused := w.plan()
	if refused != "" || len(p.Keys) != 1 || p.SystemUUID != uuid1 || len(p.MACAddresses) != 1 || p.MACAddresses[0] != mac1 || p.BMC == "" || p.Asked.IsZero() || p.AskedFrom == "" || !p.AgentAsks {
		t.Fatalf("plan %+v %s", p, refused)
	}
	if err := p.Open(t.Context(), w.api); err != nil {
		t.Fatal(err)
	}
	if code, reason := w.readmit(other, uuid1); code != 403 || reason != enroll.ReasonWrongServer {
		t.Errorf("another key while it is open: %d %s", code, reason)
	}
	if w.signer.signed != signed {
		t.Fatal("a certificate was signed for a refused request")
	}
	w.signer.lose = true
	if code, reason := w.readmit(key, uuid1); code != 503 {
		t.Errorf("the signer does nothing: %d %s", code, reason)
	}
	w.signer.lose = false
	for _, try := range []string{"first", "the answer was lost"} {
		if code, reason := w.readmit(key, uuid1); code != 200 {
			t.Errorf("%s: %d %s", try, code, reason)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := w.get(lease, host.Namespace, "s1"); err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.now.Add(time.Second)}
	if err := w.api.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonNotReadmitted {
		t.Errorf("second use: %d %s", code, reason)
	}

	// What was allowed and not used ends by itself.
	w.now = w.now.Add(hostkey.Validity + time.Hour)
	w.open()
	w.now = w.now.Add(hostkey.Window)
	if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonNotReadmitted {
		t.Errorf("after its time: %d %s", code, reason)
	}
}

func TestReadmissionIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *world)
		plan   string
	}{
		"retired": {func(_ *testing.T, w *world) { w.change(func(s *region.Server) { s.Spec.Retired = true }) }, "is retired"},
		"reinstallation accepted": {func(_ *testing.T, w *world) {
			after := metav1.NewTime(w.now)
			w.change(func(s *region.Server) {
				s.Spec.ReinstallAfter, s.Status.Reinstallation = &after, &region.ReinstallationStatus{After: after, Accepted: after}
			})
		}, "is being installed again"},
		"another server of the name": {func(t *testing.T, w *world) {
			s := &region.Server{}
			if err := w.get(s, "", "s1"); err != nil {
				t.Fatal(err)
			}
			if err := w.api.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if err := w.api.Create(t.Context(), &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: "uid-new"}, Spec: s.Spec}); err != nil {
				t.Fatal(err)
			}
		}, "no key of its agent was recorded"},
		"gone": {func(t *testing.T, w *world) {
			if err := w.api.Delete(t.Context(), &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1"}}); err != nil {
				t.Fatal(err)
			}
		}, "neither a server nor an enrolled host"},
		"installed again": {func(_ *testing.T, w *world) {
			w.change(func(s *region.Server) { s.Status.Installation, s.Status.Netboot = nil, requested(w.now) })
			w.installed(uuid1, "SN1", mac1)
		}, "has not joined yet"},
	} {
		w := newWorld(t)
		key := newKey(t)
		w.joined(key)
		w.now = w.now.Add(hostkey.Validity + time.Hour)
		w.open()
		c.change(t, w)
		if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonWrongServer {
			t.Errorf("%s: got %d %s, want 403 %s", name, code, reason, enroll.ReasonWrongServer)
		}
		if _, refused := w.plan(); !strings.Contains(refused, c.plan) {
			t.Errorf("%s: got refusal %q, want %q in it", name, refused, c.plan)
		}
	}
}

// Versions that kept no record left the key of a host's first certificate, in the Secret of its join token.
func TestReadmitHostOfEarlierVersion(t *testing.T) {
	w := newWorld(t)
	key, other := newKey(t), newKey(t)
	w.joined(key)
	w.forget(hostkey.Name("s1"))
	w.now = w.now.Add(hostkey.Validity + time.Hour)
	if p, refused := w.plan(); refused != "" || p.AgentAsks || !strings.Contains(p.Otherwise, "spec.reinstallAfter") {
		t.Errorf("plan before it asks: got %+v %s, want not to know whether it will, and what to do then", p, refused)
	}
	if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonNotReadmitted {
		t.Errorf("first key: %d %s", code, reason)
	}
	w.open()
	if code, reason := w.readmit(other, uuid1); code != 403 || reason != enroll.ReasonWrongServer {
		t.Errorf("another key: %d %s", code, reason)
	}
	if code, reason := w.readmit(key, uuid1); code != 200 {
		t.Errorf("first key, readmitted: %d %s", code, reason)
	}
	w.forget(hostkey.Name("s1"))
	w.forget(host.JoinToken("s1"))
	if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonWrongServer {
		t.Errorf("nothing was recorded: %d %s", code, reason)
	}
	if _, refused := w.plan(); !strings.Contains(refused, "spec.reinstallAfter") {
		t.Errorf("plan without a record: %q", refused)
	}
}

// A host whose last certificate was lost asks before that one has expired, and nobody says that it has.
func TestReadmitBeforeTheRecordExpires(t *testing.T) {
	w := newWorld(t)
	key := newKey(t)
	w.joined(key)
	var log bytes.Buffer
	w.server.Log = slog.New(slog.NewTextHandler(&log, nil))
	if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonNotReadmitted {
		t.Errorf("asks: got %d %s, want 403 %s", code, reason, enroll.ReasonNotReadmitted)
	}
	const want = "that has not reached it, or its clock is wrong"
	if !strings.Contains(log.String(), want) {
		t.Errorf("the answer: got %s, want %q in it", log.String(), want)
	}
	p, refused := w.plan()
	if refused != "" || !strings.Contains(p.Need, want) {
		t.Fatalf("plan: got %+v %s, want %q in it", p, refused, want)
	}
	w.open()
	if code, reason := w.readmit(key, uuid1); code != 200 {
		t.Errorf("asks, readmitted: %d %s", code, reason)
	}
}

// An installation that is ordered in the same moment revokes the keys, whatever was read of them before.
func TestReadmissionAndInstallationAtOnce(t *testing.T) {
	for name, record := range map[string]bool{"with a record": true, "of an earlier version": false} {
		w := newWorld(t)
		key := newKey(t)
		order := func() {
			w.change(func(s *region.Server) { s.Status.Installation, s.Status.Netboot = nil, requested(w.now) })
			w.installed(uuid1, "SN1", mac1)
		}
		host := func() {
			w.joined(key)
			if !record {
				w.forget(hostkey.Name("s1"))
			}
			w.now = w.now.Add(hostkey.Validity + time.Hour)
		}
		host()
		w.meanwhile.read, w.meanwhile.do = &coordinationv1.Lease{}, order
		if code, reason := w.readmit(key, uuid1); code != 503 || reason != enroll.ReasonUnavailable {
			t.Errorf("%s: it asks: got %d %s, want 503 %s", name, code, reason, enroll.ReasonUnavailable)
		}
		if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonWrongServer {
			t.Errorf("%s: it asks again: got %d %s, want 403 %s", name, code, reason, enroll.ReasonWrongServer)
		}
		w.change(func(s *region.Server) { s.Status.Installation, s.Status.Netboot = nil, requested(w.now) })
		host()
		p, refused := w.plan()
		if refused != "" {
			t.Fatal(refused)
		}
		order()
		if err := p.Open(t.Context(), w.api); err == nil || !strings.Contains(err.Error(), "have changed") {
			t.Errorf("%s: the operator agrees: got %v, want a refusal", name, err)
		}
		if code, reason := w.readmit(key, uuid1); code != 403 || reason != enroll.ReasonWrongServer {
			t.Errorf("%s: it asks after that: got %d %s, want 403 %s", name, code, reason, enroll.ReasonWrongServer)
		}
	}
}

// Two machines that hold one key ask in turn: the record is not written for each request.
func TestAskingIsRecordedNowAndThen(t *testing.T) {
	w := newWorld(t)
	key := newKey(t)
	w.joined(key)
	w.now = w.now.Add(hostkey.Validity + time.Hour)
	written := map[string]bool{}
	for i := range 60 {
		w.now = w.now.Add(time.Second)
		w.from = fmt.Sprintf("10.99.0.%d:1000", 101+i%2)
		if code, reason := w.send(enroll.PathReadmit, "", enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}, nil); code != 403 {
			t.Fatal(code, reason)
		}
		secret := &corev1.Secret{}
		if err := w.get(secret, region.NamespaceSystem, hostkey.Name("s1")); err != nil {
			t.Fatal(err)
		}
		written[secret.ResourceVersion] = true
	}
	if len(written) > 2 {
		t.Errorf("a minute of requests from two addresses: got %d writes, want 1 or 2", len(written))
	}
}

// renewal asks for a new certificate by one of server s1.
func (w *world) renewal(url string, key *ecdsa.PrivateKey, certificate string) error {
	w.t.Helper()
	block, _ := pem.Decode([]byte(certificate))
	c, err := enroll.NewClient(url, w.signer.pem, &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Renew(w.t.Context(), enroll.JoinRequest{CSR: csr(w.t, newKey(w.t)), SystemUUID: uuid1})
	return err
}

// A disk that was pulled before its server was installed again holds a certificate that is still valid.
func TestEarlierInstallationIsNotRenewed(t *testing.T) {
	w := newWorld(t)
	url := w.serve(t)
	old, key := newKey(t), newKey(t)
	oldCertificate := w.joined(old)
	for _, try := range []string{"first", "the answer was lost"} {
		if err := w.renewal(url, old, oldCertificate); err != nil {
			t.Errorf("renewal, %s: %v", try, err)
		}
	}
	w.change(func(s *region.Server) { s.Status.Installation, s.Status.Netboot = nil, requested(w.now) })
	certificate := w.joined(key)
	if err := w.renewal(url, old, oldCertificate); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("renewal by the disk from before: %v", err)
	}
	if err := w.renewal(url, key, certificate); err != nil {
		t.Errorf("renewal by the present installation: %v", err)
	}
}
