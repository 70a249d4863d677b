//go:build envtest

package hardware_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/discovery"
	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
	"regiond.dev/regiond/test/apiserver"
)

var regiondFlag = flag.String("regiond", "../bin/regiond", "a built regiond, for its API server, etcd and controller manager")

// authority is the region's CA.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "regiond"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &authority{key, c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) serving(t *testing.T) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "enroll"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	serving := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving, nil }
}

// cluster is a real API server with the controller that signs certificates.
type cluster struct {
	rest   *rest.Config
	ca     *authority
	api    client.Client
	scheme *runtime.Scheme
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{ca: newAuthority(t), scheme: scheme.New()}
	ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	s := apiserver.Start(t, *regiondFlag)
	c.rest, c.api = s.REST, s.Client
	// The hosts' certificates are signed by our CA.
	s.TrustClients(t, c.ca.pem)
	der, err := x509.MarshalECPrivateKey(c.ca.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "signing.crt"), filepath.Join(dir, "signing.key")
	for file, content := range map[string][]byte{certificate: c.ca.pem, key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Controllers(t, "certificatesigningrequest-signing-controller", "--cluster-signing-cert-file="+certificate, "--cluster-signing-key-file="+key)
	return c
}

// machine is a server whose firmware and installer are played by the test; its agent is the real one.
type machine struct {
	t    *testing.T
	uuid string
	mac  string
	dir  string // what the installer left on the data partition

	mu     sync.Mutex
	power  region.PowerState
	once   bool
	booted chan bool // true: from the network
	marker *inventory.InstallMarker
}

func (m *machine) Probe(context.Context, bmc.Target) (region.BMCStatus, region.PowerState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return region.BMCStatus{Manufacturer: "Test", SystemUUID: m.uuid, FirmwareVersion: "1"}, m.power, nil
}

func (m *machine) Power(context.Context, bmc.Target) (region.PowerState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.power, nil
}

func (m *machine) SetPower(_ context.Context, _ bmc.Target, s region.PowerState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power == region.PowerOff && s == region.PowerOn {
		m.booted <- m.once
		m.once = false
	}
	m.power = s
	return nil
}

func (m *machine) ShutDown(ctx context.Context, a bmc.Target) error {
	return m.SetPower(ctx, a, region.PowerOff)
}

func (m *machine) SetNetworkBoot(context.Context, bmc.Target, inventory.FirmwareMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once = true
	return nil
}

func (m *machine) Forget(context.Context, netip.AddrPort) error { return nil }

func (m *machine) Identify(ctx context.Context, a bmc.Target) (region.BMCStatus, error) {
	s, _, err := m.Probe(ctx, a)
	return s, err
}

// install plays iPXE and the installer.
func (m *machine) install(ctx context.Context, s *enrollment.Server) {
	m.t.Helper()
	select {
	case network := <-m.booted:
		if !network {
			m.t.Fatal("powered on without the one-shot network boot")
		}
	case <-time.After(60 * time.Second):
		m.t.Fatal("the machine was not powered on")
	}
	mac, err := net.ParseMAC(m.mac)
	if err != nil {
		m.t.Fatal(err)
	}
	// Firmware takes longer to come up than regiond to write down that the machine is on, and the loader asks again after an error.
	var ticket *enroll.Ticket
	apiserver.Eventually(m.t, "a ticket", func() (bool, string) {
		ticket, err = s.Netboot(ctx, enrollment.Machine{MAC: mac, UUID: strings.ToUpper(m.uuid), Address: netip.MustParseAddr("127.0.0.1")})
		return err == nil && ticket != nil, fmt.Sprintf("%v, %v", ticket, err)
	})
	c, err := enroll.NewClient(ticket.URL, []byte(ticket.CA), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	i, err := c.Inventory(ctx, ticket.Token, enroll.InventoryReport{Version: "1", Inventory: inventory.Inventory{
		System: inventory.SystemInfo{UUID: m.uuid, Manufacturer: "Test"}, Firmware: inventory.FirmwareUEFI,
		Disks: []inventory.Disk{{Name: "vda", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD, Blank: m.marker == nil, Marker: m.marker}},
		NICs:  []inventory.NIC{{Name: "eth0", MACAddress: m.mac, Boot: true}}}})
	if err != nil || i.Install == nil {
		m.t.Fatalf("instruction %+v, %v", i, err)
	}
	for _, stage := range []region.InstallStage{region.StageWriting, region.StageInstalled} {
		if err := c.Progress(ctx, ticket.Token, enroll.Progress{Stage: string(stage), BytesWritten: 10, BytesTotal: 10}); err != nil {
			m.t.Fatal(err)
		}
	}
	b, err := json.Marshal(i.Install.Identity)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, identity.File), b, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// regiond runs the controllers and the enroll API as hardware.Setup does, but for the netboot services, which
// need a network of their own. The returned function ends them.
func (c *cluster) regiond(t *testing.T, m *machine, listener net.Listener) (*enrollment.Server, func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	again := true
	mgr, err := ctrl.NewManager(c.rest, ctrl.Options{Scheme: c.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &again}})
	if err != nil {
		t.Fatal(err)
	}
	events := mgr.GetEventRecorder("regiond-hardware")
	url := "https://" + listener.Addr().String()
	enrolling, err := enrollment.New(enrollment.Config{Client: c.api, RegionName: "r", URL: url, CA: append(append([]byte{}, c.ca.pem...), c.rest.CAData...), GetCertificate: c.ca.serving(t),
		KubernetesURL: c.rest.Host,
		Image: func() (diskimage.Manifest, string, error) {
			return diskimage.Manifest{Version: "trixie-1"}, "http://127.0.0.1/images/trixie-1", nil
		}, Events: events, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	controller := &server.Controller{Client: mgr.GetClient(), Live: c.api, BMCs: m, Guests: server.NoGuests{}, RegionName: "r", Cleanup: enrolling.Cleanup, Events: events, Log: log}
	static := &discovery.Static{Client: mgr.GetClient(), RegionName: "r", Log: log}
	searching := &discovery.Discovery{Client: mgr.GetClient(), Live: c.api, RegionName: "r", Events: events, Log: log, Identify: m.Identify,
		Scan: func(_ context.Context, a []netip.AddrPort) ([]netip.AddrPort, error) { return a, nil }}
	if err := errors.Join(controller.SetupWithManager(ctx, mgr, nil), static.SetupWithManager(mgr), searching.SetupWithManager(mgr, nil)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- mgr.Start(ctx) }()
	go func() { done <- enrolling.Serve(ctx, listener) }()
	return enrolling, func() {
		stop()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
