package enrollment_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
)

const (
	uuid1 = "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4"
	uuid2 = "c2d90b1e-77a4-4a53-b1f6-52e80d6c3a94"
	mac1  = "52:54:00:00:00:01"
	mac2  = "52:54:00:00:00:02"
)

// signer is a CA that signs what was approved, in place of the controller manager.
type signer struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
	// signed certificates, and those not to be delivered.
	signed int
	lose   bool
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &signer{key: key, cert: c, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (s *signer) sign(t testing.TB, c *x509.Certificate, public any) []byte {
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-5*time.Minute), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, s.cert, public, s.key)
	if err != nil {
		t.Error(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// world is an enroll server with two servers in its region.
type world struct {
	events eventtest.Book
	t      testing.TB
	api    client.Client
	signer *signer
	server *enrollment.Server
	image  error
	now    time.Time
	from   string // address and port of requests, empty for any
	// meanwhile something is done once: when an object of that type is read, after some reads that pass.
	meanwhile struct {
		read   client.Object
		passed int
		do     func()
	}
}

// requested is the record of a network boot that regiond has just asked for.
func requested(at time.Time) *region.NetbootStatus {
	return &region.NetbootStatus{Requested: &metav1.Time{Time: at}, ObservedOff: &metav1.Time{Time: at}, Attempts: 1}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, signer: newSigner(t), now: time.Now().Truncate(time.Second)}
	server := func(name, uid, uuid, serial, address string) *region.Server {
		return &region.Server{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: address, Credentials: "lab"}},
			Status: region.ServerStatus{BMC: &region.BMCStatus{SystemUUID: uuid, SerialNumber: serial}, Power: region.PowerOn, Netboot: requested(w.now)}}
	}
	s1, s2 := server("s1", "uid-1", uuid1, "SN1", "10.98.0.11"), server("s2", "uid-2", uuid2, "SN2", "10.98.0.12")
	w.api = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&region.Server{}, &region.Host{}, &certificatesv1.CertificateSigningRequest{}).
		WithObjects(&region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "region-uid"},
			Spec: region.RegionSpec{Hardware: region.Hardware{Profiles: []region.Profile{{Name: "all", KernelArguments: []string{"quiet"}}}}}}, s1, s2).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if reflect.TypeOf(o) == reflect.TypeOf(w.meanwhile.read) && w.meanwhile.do != nil {
				if do := w.meanwhile.do; w.meanwhile.passed == 0 {
					w.meanwhile.do = nil
					do()
				}
				w.meanwhile.passed--
			}
			return c.Get(ctx, key, o, opts...)
		}, SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			csr, ok := o.(*certificatesv1.CertificateSigningRequest)
			if !ok || sub != "approval" {
				return c.SubResource(sub).Update(ctx, o, opts...)
			}
			if w.signer.lose {
				return nil
			}
			block, _ := pem.Decode(csr.Spec.Request)
			request, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil {
				t.Error(err)
			}
			if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || *csr.Spec.ExpirationSeconds != 90*24*3600 {
				t.Errorf("CSR %+v", csr.Spec)
			}
			csr.Status.Certificate = w.signer.sign(t, &x509.Certificate{Subject: request.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, request.PublicKey)
			w.signer.signed++
			return c.Status().Update(ctx, csr)
		}}).Build()
	var err error
	w.server, err = enrollment.New(enrollment.Config{Client: w.api, RegionName: "r", URL: "https://10.99.0.1:7443", KubernetesURL: "https://10.99.0.1:6443", CA: w.signer.pem,
		Image: func() (diskimage.Manifest, string, error) {
			return diskimage.Manifest{Version: "trixie-1"}, "http://10.99.0.1/images/trixie-1", w.image
		},
		SignTimeout: time.Second, Events: &w.events, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// serve gives the API on a loopback address and returns its URL.
func (w *world) serve(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// A new certificate for each handshake: none is kept.
	w.server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		block, _ := pem.Decode(w.signer.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "regiond"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, key.Public()))
		return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, nil
	}
	l, err := enrollment.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "https://" + l.Addr().String()
}

// netboot lets a machine ask for its job.
func (w *world) netboot(uuid, serial, mac string) *enroll.Ticket {
	w.t.Helper()
	m, err := net.ParseMAC(mac)
	if err != nil {
		w.t.Fatal(err)
	}
	ticket, err := w.server.Netboot(context.Background(), enrollment.Machine{MAC: m, UUID: uuid, Serial: serial, Address: netip.MustParseAddr("10.99.0.100")})
	if err != nil {
		w.t.Fatal(err)
	}
	return ticket
}

func report(uuid, mac string, disks ...inventory.Disk) enroll.InventoryReport {
	if disks == nil {
		disks = []inventory.Disk{{Name: "vda", SerialNumber: "D1", WWN: "naa.5", Bytes: 20e9, Type: inventory.DiskSSD, Blank: true}}
	}
	return enroll.InventoryReport{Version: "1", Inventory: inventory.Inventory{System: inventory.SystemInfo{UUID: uuid}, Firmware: inventory.FirmwareUEFI,
		Disks: disks, NICs: []inventory.NIC{{Name: "eth0", MACAddress: mac, Boot: true}}}}
}

// post sends a body as it is, and returns the status and the reason of a refusal.
func (w *world) post(path, token string, body []byte, out any) (int, string) {
	w.t.Helper()
	r := httptest.NewRequest("POST", path, bytes.NewReader(body))
	r.RemoteAddr = cmp.Or(w.from, r.RemoteAddr)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(resp, r)
	if resp.Code/100 == 2 {
		if out != nil {
			if err := json.Unmarshal(resp.Body.Bytes(), out); err != nil {
				w.t.Fatal(err)
			}
		}
		return resp.Code, ""
	}
	var e enroll.Error
	if err := json.Unmarshal(resp.Body.Bytes(), &e); err != nil && resp.Code != 405 && resp.Code != 404 {
		w.t.Errorf("%s: %d without an error body: %q", path, resp.Code, resp.Body)
	}
	return resp.Code, e.Reason
}

func (w *world) send(path, token string, in, out any) (int, string) {
	w.t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.post(path, token, b, out)
}

func (w *world) get(o client.Object, namespace, name string) error {
	return w.api.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, o)
}

// installed takes a server to the end of its installation and returns its join token.
func (w *world) installed(uuid, serial, mac string) *enroll.Install {
	w.t.Helper()
	ticket := w.netboot(uuid, serial, mac)
	if ticket == nil {
		w.t.Fatal("no ticket")
	}
	var i enroll.Instruction
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid, mac), &i); code != 200 || i.Install == nil {
		w.t.Fatalf("inventory: %d %s %+v", code, reason, i)
	}
	for _, stage := range []string{"Writing", "Installed"} {
		if code, reason := w.send(enroll.PathProgress, ticket.Token, enroll.Progress{Stage: stage, BytesTotal: 10}, nil); code != 204 {
			w.t.Fatalf("progress %s: %d %s", stage, code, reason)
		}
	}
	return i.Install
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// csr is the request of an agent of this version for server s1, but for what is changed.
func csr(t testing.TB, key any, change ...func(*x509.CertificateRequest)) string {
	t.Helper()
	r := &x509.CertificateRequest{Subject: enroll.Subject("s1", "")}
	if signer, ok := key.(crypto.Signer); ok {
		r.Subject = enroll.Subject("s1", keyID(t, signer))
	}
	for _, c := range change {
		c(r)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, r, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func keyID(t testing.TB, key crypto.Signer) string {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return enroll.KeyID(spki)
}

// hostSubject is the subject of a host by its name only, as agents of earlier versions ask for.
func hostSubject(name string) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) { r.Subject = enroll.Subject(name, "") }
}
