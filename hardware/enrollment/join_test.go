package enrollment_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

func TestJoin(t *testing.T) {
	w := newWorld(t)
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	key, other := newKey(t), newKey(t)
	join := func(token, uuid, request string) (int, string, string) {
		t.Helper()
		w.now = w.now.Add(time.Minute) // past the rate limits
		var r enroll.JoinResponse
		code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: request, SystemUUID: uuid}, &r)
		return code, reason, r.Certificate
	}
	_, weak, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token, uuid, csr string
		code                   int
		reason                 string
	}{
		{"no token", "", uuid1, csr(t, key), 401, enroll.ReasonTokenUnknown},
		{"wrong token", token + "x", uuid1, csr(t, key), 401, enroll.ReasonTokenUnknown},
		{"from another server", token, uuid2, csr(t, key), 403, enroll.ReasonWrongServer},
		{"from no server", token, "", csr(t, key), 403, enroll.ReasonWrongServer},
		{"no CSR", token, uuid1, "", 400, enroll.ReasonMalformed},
		{"not PEM", token, uuid1, "hello", 400, enroll.ReasonMalformed},
		{"PEM of something else", token, uuid1, string(w.signer.pem), 400, enroll.ReasonMalformed},
		{"two PEM blocks", token, uuid1, csr(t, key) + csr(t, key), 400, enroll.ReasonMalformed},
		{"small key", token, uuid1, csr(t, small), 400, enroll.ReasonMalformed},
		{"subject of another host", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.Subject = enroll.Subject("s2", "") }), 400, enroll.ReasonMalformed},
		{"subject of an administrator", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), 400, enroll.ReasonMalformed},
		{"two organizations", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		}), 400, enroll.ReasonMalformed},
		{"another key's group", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.Subject = enroll.Subject("s1", keyID(t, other)) }), 400, enroll.ReasonMalformed},
		{"two keys' groups", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, enroll.KeyGroup(keyID(t, other)))
		}), 400, enroll.ReasonMalformed},
		{"a key's group and not that of hosts", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.Subject.Organization = r.Subject.Organization[1:] }), 400, enroll.ReasonMalformed},
		{"more in the subject", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} }), 400, enroll.ReasonMalformed},
		{"names", token, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }), 400, enroll.ReasonMalformed},
	} {
		if code, reason, _ := join(tt.token, tt.uuid, tt.csr); code != tt.code || reason != tt.reason {
			t.Errorf("%s: %d %s, want %d %s", tt.name, code, reason, tt.code, tt.reason)
		}
	}
	if w.signer.signed != 0 {
		t.Fatalf("%d certificates signed for refused requests", w.signer.signed)
	}

	// regiond dies, or Kubernetes is slow, after the token was consumed: the same key may try again,
	// another may not.
	w.signer.lose = true
	if code, reason, _ := join(token, uuid1, csr(t, key)); code != 503 || reason != enroll.ReasonUnavailable {
		t.Errorf("signer does nothing: %d %s", code, reason)
	}
	w.signer.lose = false
	if code, reason, _ := join(token, uuid1, csr(t, other)); code != 403 || reason != enroll.ReasonTokenUsed {
		t.Errorf("second use with another key: %d %s", code, reason)
	}
	code, reason, cert := join(token, uuid1, csr(t, key))
	if code != 200 {
		t.Fatalf("%d %s", code, reason)
	}
	block, _ := pem.Decode([]byte(cert))
	c, err := x509.ParseCertificate(block.Bytes)
	if want := []string{"regiond:hosts", enroll.KeyGroup(keyID(t, key))}; err != nil || c.Subject.CommonName != "regiond:host:s1" || !slices.Equal(c.Subject.Organization, want) {
		t.Errorf("certificate of %v %v, want user regiond:host:s1 in %v", c.Subject, err, want)
	}
	// Host, Lease and rights were there before the certificate was.
	h := &region.Host{}
	if err := w.get(h, "", "s1"); err != nil || h.Spec.ServerUID != "uid-1" || h.Spec.Role != region.RoleCompute {
		t.Errorf("host %+v %v", h.Spec, err)
	}
	lease := &coordinationv1.Lease{}
	if err := w.get(lease, host.Namespace, "s1"); err != nil {
		t.Fatal(err)
	}
	if w.get(&corev1.Secret{}, server.Namespace, "ticket-s1") == nil {
		t.Error("the ticket outlives the join")
	}
	if code, reason, _ := join(token, uuid1, csr(t, key)); code != 200 {
		t.Errorf("the answer was lost, same key again: %d %s", code, reason)
	}
	if code, reason, _ := join(token, uuid1, csr(t, weak)); code != 403 || reason != enroll.ReasonTokenUsed {
		t.Errorf("used token, other key: %d %s", code, reason)
	}
	// With the first heartbeat the certificate is known to have arrived, and the token ends.
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.now}
	if err := w.api.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if code, reason, _ := join(token, uuid1, csr(t, key)); code != 403 || reason != enroll.ReasonTokenUsed {
		t.Errorf("token after the first heartbeat: %d %s", code, reason)
	}
}

// Two machines with one token at the same time: one of them wins.
func TestJoinRace(t *testing.T) {
	w := newWorld(t)
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	const n = 8
	codes := make(chan int, n)
	for range n {
		request := csr(t, newKey(t))
		go func() {
			code, _ := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: request, SystemUUID: uuid1}, nil)
			codes <- code
		}()
	}
	won := 0
	for range n {
		if <-codes == 200 {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d of %d got a certificate", won, n)
	}
}

func TestTLSAndRenewal(t *testing.T) {
	w := newWorld(t)
	url := w.serve(t)
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	key := newKey(t)
	anonymous, err := enroll.NewClient(url, w.signer.pem, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	joined, err := anonymous.Join(t.Context(), token, enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := anonymous.Renew(t.Context(), enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}); !refusedFor(err, enroll.ReasonTokenUnknown) {
		t.Errorf("renewal without a certificate: %v", err)
	}
	block, _ := pem.Decode([]byte(joined.Certificate))
	renew := func(cert []byte, uuid, request string) error {
		c, err := enroll.NewClient(url, w.signer.pem, &tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Renew(t.Context(), enroll.JoinRequest{CSR: request, SystemUUID: uuid})
		return err
	}
	if err := renew(block.Bytes, uuid1, csr(t, newKey(t))); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if err := renew(block.Bytes, uuid2, csr(t, key)); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("renewal from another machine: %v", err)
	}
	if err := renew(block.Bytes, uuid1, csr(t, key, func(r *x509.CertificateRequest) { r.Subject = enroll.Subject("s2", "") })); !refusedFor(err, enroll.ReasonMalformed) {
		t.Errorf("renewal for another host: %v", err)
	}
	admin, _ := pem.Decode(w.signer.sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key.Public()))
	if err := renew(admin.Bytes, uuid1, csr(t, key)); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("renewal with a certificate of no host: %v", err)
	}
	stranger := newSigner(t)
	foreign, _ := pem.Decode(stranger.sign(t, &x509.Certificate{Subject: enroll.Subject("s1", ""), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key.Public()))
	if err := renew(foreign.Bytes, uuid1, csr(t, key)); err == nil {
		t.Error("a certificate of another CA was taken")
	}
	if c, err := enroll.NewClient(url, stranger.pem, nil); err != nil {
		t.Fatal(err)
	} else if _, err := c.Join(t.Context(), token, enroll.JoinRequest{}); err == nil {
		t.Error("the client trusts another CA")
	}
	// A new Server of the same name is another machine.
	s := &region.Server{}
	if err := w.get(s, "", "s1"); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	fresh := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: "uid-new", CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}, Spec: s.Spec}
	if err := w.api.Create(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if err := renew(block.Bytes, uuid1, csr(t, key)); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("renewal for a new server of the same name: %v", err)
	}
	if _, err := anonymous.Join(t.Context(), token, enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}); !refusedFor(err, enroll.ReasonTokenUnknown) {
		t.Errorf("join token of an earlier server: %v", err)
	}
}

func refusedFor(err error, reason string) bool {
	e := (*enroll.Error)(nil)
	return errors.As(err, &e) && e.Reason == reason && enroll.Refused(err)
}
