package enrollment_test

import (
	"crypto/tls"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// provisioned gives the region an address and a second profile.
func (w *world) provisioned(t *testing.T) {
	t.Helper()
	r := &region.Region{}
	if err := w.get(r, "", "r"); err != nil {
		t.Fatal(err)
	}
	r.Spec.Networks.Provisioning.Address = "10.99.0.1"
	r.Spec.Hardware.Profiles = append(r.Spec.Hardware.Profiles, region.Profile{Name: "fast"})
	if err := w.api.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	// The fake API server gives no UIDs.
	if err := w.api.Create(t.Context(), &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "host-1"}}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) enrollment(name string) enrollment.Enrollment {
	return enrollment.Enrollment{Name: name, Profile: "fast", KubernetesURL: "https://10.99.0.1:6443", CA: w.signer.pem, Now: func() time.Time { return w.now }}
}

func TestEnroll(t *testing.T) {
	w := newWorld(t)
	w.provisioned(t)
	for name, want := range map[string]string{"s1": "there is a server", "A.b": "not a DNS label"} {
		if _, err := enrollment.Enroll(t.Context(), w.api, w.enrollment(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown := w.enrollment("n1")
	unknown.Profile = "slow"
	if _, err := enrollment.Enroll(t.Context(), w.api, unknown); err == nil || !strings.Contains(err.Error(), `"slow" is not in`) {
		t.Errorf("unknown profile: %v", err)
	}
	first, err := enrollment.Enroll(t.Context(), w.api, w.enrollment("n1"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := enrollment.Enroll(t.Context(), w.api, w.enrollment("n1"))
	if err != nil {
		t.Fatal(err)
	}
	if id.Hostname != "n1" || id.ServerUID != "" || id.RegionUID != "region-uid" || id.EnrollURL != "https://10.99.0.1:7443" || id.Role != "compute" || id.JoinToken == first.JoinToken {
		t.Errorf("identity %+v", id)
	}
	h := &region.Host{}
	if err := w.get(h, "", "n1"); err != nil || h.Spec.Profile != "fast" || h.Spec.Role != region.RoleCompute || h.Spec.ServerUID != "" {
		t.Errorf("host %+v %v", h.Spec, err)
	}
	role := &rbacv1.Role{}
	if err := w.get(role, host.Namespace, host.User("n1")); err != nil || !metav1.IsControlledBy(role, h) {
		t.Errorf("role %+v %v", role, err)
	}
	allowed := false
	for _, rule := range role.Rules {
		allowed = allowed || strings.Join(rule.Resources, "") == "secrets" && strings.Join(rule.ResourceNames, "") == "n1" && strings.Join(rule.Verbs, " ") == "get list watch"
	}
	if !allowed {
		t.Errorf("the host may not read its configuration: %+v", role.Rules)
	}
	if secret := (&corev1.Secret{}); w.get(secret, "regiond-system", "join-n1") != nil || strings.Contains(string(secret.Data["sha256"]), id.JoinToken) {
		t.Error("no Secret of the token, or it holds the token")
	}

	// The server of that name is none, the machine has no UUID: the token is enough, once.
	key, other := newKey(t), newKey(t)
	subject := func(k any) string { return csr(t, k, hostSubject("n1")) }
	join := func(token, request string) (int, string, string) {
		t.Helper()
		w.now = w.now.Add(time.Minute)
		var r enroll.JoinResponse
		code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: request}, &r)
		return code, reason, r.Certificate
	}
	if code, reason, _ := join(first.JoinToken, subject(key)); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("replaced token: %d %s", code, reason)
	}
	if code, reason, _ := join(id.JoinToken, csr(t, key)); code != 400 || reason != enroll.ReasonMalformed {
		t.Errorf("subject of a server's host: %d %s", code, reason)
	}
	late := w.now
	w.now = w.now.Add(25 * time.Hour)
	if code, reason, _ := join(id.JoinToken, subject(key)); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("token after a day: %d %s", code, reason)
	}
	w.now = late
	code, reason, cert := join(id.JoinToken, subject(key))
	if code != 200 {
		t.Fatalf("%d %s", code, reason)
	}
	if code, reason, _ := join(id.JoinToken, subject(other)); code != 403 || reason != enroll.ReasonTokenUsed {
		t.Errorf("used token, other key: %d %s", code, reason)
	}
	if code, reason, _ := join(id.JoinToken, subject(key)); code != 200 {
		t.Errorf("the answer was lost, same key again: %d %s", code, reason)
	}
	lease := &coordinationv1.Lease{}
	if err := w.get(lease, host.Namespace, "n1"); err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.now}
	if err := w.api.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if code, reason, _ := join(id.JoinToken, subject(key)); code != 403 || reason != enroll.ReasonTokenUsed {
		t.Errorf("token after the first heartbeat: %d %s", code, reason)
	}
	if _, err := enrollment.Enroll(t.Context(), w.api, w.enrollment("n1")); err == nil || !strings.Contains(err.Error(), "--again") {
		t.Errorf("enrolled although it has joined: %v", err)
	}

	// Renewal is bound to the key of the certificate.
	url := w.serve(t)
	block, _ := pem.Decode([]byte(cert))
	renew := func(request string) error {
		c, err := enroll.NewClient(url, w.signer.pem, &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Renew(t.Context(), enroll.JoinRequest{CSR: request})
		return err
	}
	if err := renew(subject(newKey(t))); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if err := renew(csr(t, newKey(t))); !refusedFor(err, enroll.ReasonMalformed) {
		t.Errorf("renewal for another host: %v", err)
	}
	if err := w.api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: host.Namespace}}); err != nil {
		t.Fatal(err)
	}
	if err := host.Unenroll(t.Context(), w.api, "n1"); err != nil {
		t.Fatal(err)
	}
	if err := renew(subject(newKey(t))); !refusedFor(err, enroll.ReasonWrongServer) {
		t.Errorf("renewal after the host was removed: %v", err)
	}
	if w.get(&rbacv1.Role{}, host.Namespace, host.User("n1")) == nil || w.get(&corev1.Secret{}, host.Namespace, "n1") == nil || w.get(h, "", "n1") == nil {
		t.Error("rights, configuration or Host were left")
	}
	if err := host.Unenroll(t.Context(), w.api, "n1"); err == nil {
		t.Error("a host that is not there was removed")
	}
}

// The host of a server that regiond installed is not taken over.
func TestEnrollLeavesInstalledHosts(t *testing.T) {
	w := newWorld(t)
	w.provisioned(t)
	if err := w.api.Create(t.Context(), &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: region.HostSpec{ServerUID: "gone", Role: region.RoleCompute}}); err != nil {
		t.Fatal(err)
	}
	again := w.enrollment("n2")
	again.Again = true
	for _, e := range []enrollment.Enrollment{w.enrollment("n2"), again} {
		if _, err := enrollment.Enroll(t.Context(), w.api, e); err == nil {
			t.Errorf("enrolled: %+v", e)
		}
	}
	if err := host.Unenroll(t.Context(), w.api, "n2"); err == nil {
		t.Error("removed")
	}
}

// The profile that a server was installed by is in its Host.
func TestJoinNamesTheProfile(t *testing.T) {
	w := newWorld(t)
	token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
	if code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(t, newKey(t)), SystemUUID: uuid1}, nil); code != 200 {
		t.Fatal(code, reason)
	}
	h := &region.Host{}
	if err := w.get(h, "", "s1"); err != nil || h.Spec.Profile != "all" {
		t.Errorf("host %+v %v", h.Spec, err)
	}
}
