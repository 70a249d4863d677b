package enrollment_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// holders of the rights of s1, as its bindings have it. Both must say the same.
func (w *world) holders() []string {
	w.t.Helper()
	names := func(subjects []rbacv1.Subject) (all []string) {
		for _, s := range subjects {
			all = append(all, s.Name)
		}
		return all
	}
	inNamespace, everywhere := &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}
	err := w.get(inNamespace, host.Namespace, host.User("s1"))
	err2 := w.get(everywhere, "", host.User("s1"))
	if apierrors.IsNotFound(err) && apierrors.IsNotFound(err2) {
		return nil
	}
	a, b := names(inNamespace.Subjects), names(everywhere.Subjects)
	if err != nil || err2 != nil || !slices.Equal(a, b) {
		w.t.Fatalf("bindings of %v (%v) and %v (%v), want the same", a, err, b, err2)
	}
	return a
}

func (w *world) wantHolders(when string, want ...string) {
	w.t.Helper()
	if got := w.holders(); !slices.Equal(got, want) {
		w.t.Errorf("%s: the rights are of %v, want %v", when, got, want)
	}
}

// exchange speaks to the API with a certificate.
func (w *world) exchange(url string, key *ecdsa.PrivateKey, certificate string) *enroll.Client {
	w.t.Helper()
	block, _ := pem.Decode([]byte(certificate))
	c, err := enroll.NewClient(url, w.signer.pem, &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// A host's rights are those of the key that was certified last, and during a renewal of the one before, too.
func TestRightsFollowTheKey(t *testing.T) {
	w := newWorld(t)
	url := w.serve(t)
	keys := []*ecdsa.PrivateKey{newKey(t), newKey(t), newKey(t)}
	var groups []string
	for _, k := range keys {
		groups = append(groups, enroll.KeyGroup(keyID(t, k)))
	}
	first := w.exchange(url, keys[0], w.joined(keys[0]))
	w.wantHolders("joined", groups[0])
	renewed, err := first.Renew(t.Context(), enroll.JoinRequest{CSR: csr(t, keys[1]), SystemUUID: uuid1})
	if err != nil {
		t.Fatal(err)
	}
	w.wantHolders("renewed, the answer may be lost", groups[1], groups[0])
	second := w.exchange(url, keys[1], renewed.Certificate)
	confirmed := enroll.ConfirmRequest{SystemUUID: uuid1}
	if err := first.Confirm(t.Context(), confirmed); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("confirmed by the certificate before: got %v, want %s", err, enroll.ReasonWrongServer)
	}
	if err := second.Confirm(t.Context(), enroll.ConfirmRequest{SystemUUID: uuid2}); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("confirmed by another machine: got %v, want %s", err, enroll.ReasonWrongServer)
	}
	w.wantHolders("not confirmed", groups[1], groups[0])
	for range 2 {
		if err := second.Confirm(t.Context(), confirmed); err != nil {
			t.Errorf("confirmed: %v", err)
		}
		w.wantHolders("confirmed", groups[1])
	}
	if _, err := first.Renew(t.Context(), enroll.JoinRequest{CSR: csr(t, keys[2]), SystemUUID: uuid1}); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("a copy of the disk from before asks: got %v, want %s", err, enroll.ReasonWrongServer)
	}

	// A disk that was pulled has none of the rights of the system that was installed since.
	w.change(func(s *region.Server) { s.Status.Installation, s.Status.Netboot = nil, requested(w.now) })
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	w.wantHolders("installation ordered")
	if code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(t, keys[2]), SystemUUID: uuid1}, nil); code != 200 {
		t.Fatal(code, reason)
	}
	w.wantHolders("installed again", groups[2])
}

// Certificates of earlier versions name no key: who has one is known by the host's name, until an agent of this one renews it.
func TestRightsOfEarlierAgents(t *testing.T) {
	w := newWorld(t)
	url := w.serve(t)
	old, key := newKey(t), newKey(t)
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	var joined enroll.JoinResponse
	if code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(t, old, hostSubject("s1")), SystemUUID: uuid1}, &joined); code != 200 {
		t.Fatal(code, reason)
	}
	w.wantHolders("an earlier agent joined", "regiond:host:s1")
	renewed, err := w.exchange(url, old, joined.Certificate).Renew(t.Context(), enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1})
	if err != nil {
		t.Fatal(err)
	}
	group := enroll.KeyGroup(keyID(t, key))
	w.wantHolders("renewed by an agent of this version", group, "regiond:host:s1")
	if err := w.exchange(url, key, renewed.Certificate).Confirm(t.Context(), enroll.ConfirmRequest{SystemUUID: uuid1}); err != nil {
		t.Error(err)
	}
	w.wantHolders("confirmed", group)

	// If the record is lost, the rights stay where they are.
	w.forget(hostkey.Name("s1"))
	if _, err := w.exchange(url, key, renewed.Certificate).Renew(t.Context(), enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}); err != nil {
		t.Error(err)
	}
	w.wantHolders("the record was lost, and the host renewed", group)
}

// Who asks for a certificate in the moment in which an installation is ordered gets neither it nor rights.
func TestRightsAndInstallationAtOnce(t *testing.T) {
	for name, before := range map[string]struct {
		read   client.Object
		passed int
	}{
		"before the key is recorded": {&corev1.Secret{}, 1},
		"before the host is ensured": {&region.Host{}, 0},
		"before it is given rights":  {&rbacv1.ClusterRoleBinding{}, 0},
	} {
		w := newWorld(t)
		url := w.serve(t)
		key := newKey(t)
		certificate := w.joined(key)
		signed := w.signer.signed
		w.now = w.now.Add(time.Minute)
		w.meanwhile.read, w.meanwhile.passed = before.read, before.passed
		w.meanwhile.do = func() {
			w.change(func(s *region.Server) { s.Status.Installation, s.Status.Netboot = nil, requested(w.now) })
			w.installed(uuid1, "SN1", mac1)
		}
		err := w.renewal(url, key, certificate)
		if w.meanwhile.do != nil {
			t.Fatalf("%s: %T was not read", name, before.read)
		}
		if err == nil || enroll.Refused(err) || w.signer.signed != signed {
			t.Errorf("%s: got %v and %d certificates, want to be told to try again", name, err, w.signer.signed-signed)
		}
		w.wantHolders(name)
		if err := w.renewal(url, key, certificate); !refusedFor(err, enroll.ReasonWrongServer) {
			t.Errorf("%s: asks again: got %v, want %s", name, err, enroll.ReasonWrongServer)
		}
	}
}
