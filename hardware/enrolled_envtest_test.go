//go:build envtest

package hardware_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/test/apiserver"
)

// idle is a service manager of a host without services.
type idle struct{}

func (idle) States(context.Context, []string) (map[string]service.State, error) { return nil, nil }
func (idle) Start(context.Context, string) error                                { return nil }
func (idle) Stop(context.Context, string) error                                 { return nil }
func (idle) Restart(context.Context, string) error                              { return nil }
func (idle) Reload(context.Context, string) error                               { return nil }
func (idle) Enable(context.Context, string) error                               { return nil }
func (idle) Disable(context.Context, string) error                              { return nil }
func (idle) ReloadUnits(context.Context) error                                  { return nil }

// checkEnrolled lets a machine join that regiond did not install, and gives it two configurations.
func (c *cluster) checkEnrolled(t *testing.T, address string) {
	ctx, dir, root := t.Context(), t.TempDir(), t.TempDir()
	id, err := enrollment.Enroll(ctx, c.api, enrollment.Enrollment{Name: "n1", Profile: "all", KubernetesURL: c.rest.Host,
		CA: bytes.Join([][]byte{c.ca.pem, c.rest.CAData}, nil), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if id.EnrollURL != "https://10.99.0.1:7443" {
		t.Errorf("identity %+v", id)
	}
	id.EnrollURL = "https://" + address
	content, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{filepath.Join(dir, identity.File): content,
		filepath.Join(root, "etc/passwd"): fmt.Appendf(nil, "root:x:%d:0::/:/bin/sh\n", os.Getuid()), filepath.Join(root, "etc/group"): fmt.Appendf(nil, "root:x:%d:\n", os.Getgid())} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := node.New(node.Config{DataDir: dir, StateFile: filepath.Join(dir, "run", "agent.json"), RunFile: filepath.Join(dir, "processes.json"), Root: root, Version: "v1",
		Observer: node.Observer{Root: fakeRoot(t, "no UUID at all"), Units: func(context.Context) ([]string, error) { return nil, nil }}, Services: idle{},
		HeartbeatEvery: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(testWriter{t}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	agentCtx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(agentCtx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	h := &region.Host{}
	get := func() error { return c.api.Get(ctx, client.ObjectKey{Name: "n1"}, h) }
	apiserver.Eventually(t, "host reports", func() (bool, string) {
		err := get()
		return err == nil && h.Status.BootID != "" && h.Status.Inventory == nil, fmt.Sprintf("%v %+v", err, h.Status)
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: host.Namespace, OwnerReferences: []metav1.OwnerReference{host.Owner(h)}}}
	for i, text := range []string{"one", "two"} {
		encoded, digest, err := configuration.Configuration{Files: []configuration.File{{Path: "/etc/x.conf", Mode: "0600", Owner: "root", Group: "root", Content: text}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{configuration.SecretKey: encoded}
		if i == 0 {
			err = c.api.Create(ctx, secret)
		} else {
			err = c.api.Update(ctx, secret)
		}
		if err != nil {
			t.Fatal(err)
		}
		apiserver.Eventually(t, "configuration "+text, func() (bool, string) {
			err := get()
			b, _ := os.ReadFile(filepath.Join(root, "etc/x.conf"))
			return err == nil && string(b) == text && h.Status.Configuration != nil && h.Status.Configuration.Digest == digest &&
				meta.IsStatusConditionTrue(h.Status.Conditions, region.ConditionConfigured), fmt.Sprintf("%v %q %+v", err, b, h.Status)
		})
	}
	c.checkRevoked(t, "https://"+address, filepath.Join(dir, "agent", "client.pem"))
	if err := host.Unenroll(ctx, c.api, "n1"); err != nil {
		t.Fatal(err)
	}
	if err := c.api.Get(ctx, client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the configuration of a removed host was left: %v", err)
	}
}

// checkRevoked lets a host join again, and renews its certificate: the ones from before are valid still, and the API server gives
// them nothing.
func (c *cluster) checkRevoked(t *testing.T, url, file string) {
	t.Helper()
	pulled, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	wantCode := func(when string, certificate tls.Certificate, want int) {
		t.Helper()
		apiserver.Eventually(t, when, func() (bool, string) {
			code := c.read(t, certificate, "/apis/regiond.dev/v1alpha1/hosts/n1")
			return code == want, fmt.Sprintf("got %d, want %d", code, want)
		})
	}
	exchange := func(by *tls.Certificate, ask func(*enroll.Client, enroll.JoinRequest) (enroll.JoinResponse, error)) tls.Certificate {
		t.Helper()
		client, err := enroll.NewClient(url, c.ca.pem, by)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		request, key := certificateRequest(t, "n1")
		answer, err := ask(client, enroll.JoinRequest{CSR: request})
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.X509KeyPair([]byte(answer.Certificate), key)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	wantCode("in use", pulled, 200)
	id, err := enrollment.Enroll(t.Context(), c.api, enrollment.Enrollment{Name: "n1", Profile: "all", Again: true, KubernetesURL: c.rest.Host, CA: c.ca.pem, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	wantCode("enrolled again", pulled, 403)
	first := exchange(nil, func(c *enroll.Client, r enroll.JoinRequest) (enroll.JoinResponse, error) {
		return c.Join(t.Context(), id.JoinToken, r)
	})
	wantCode("joined again", first, 200)
	wantCode("joined again, the certificate from before", pulled, 403)
	second := exchange(&first, func(c *enroll.Client, r enroll.JoinRequest) (enroll.JoinResponse, error) {
		return c.Renew(t.Context(), r)
	})
	wantCode("renewed", second, 200)
	wantCode("renewed, the certificate before", first, 200)
	client, err := enroll.NewClient(url, c.ca.pem, &second)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Confirm(t.Context(), enroll.ConfirmRequest{}); err != nil {
		t.Fatal(err)
	}
	wantCode("confirmed", second, 200)
	wantCode("confirmed, the certificate before", first, 403)
}

// read is the code that a certificate's holder is answered with.
func (c *cluster) read(t *testing.T, certificate tls.Certificate, path string) int {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.rest.CAData)
	agent := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}}
	defer agent.CloseIdleConnections()
	resp, err := agent.Get(strings.TrimSuffix(c.rest.Host, "/") + path)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// certificateRequest of a host, and its key.
func certificateRequest(t *testing.T, name string) (request string, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: enroll.Subject(name, enroll.KeyID(spki))}, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}
