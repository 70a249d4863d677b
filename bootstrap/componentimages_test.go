package bootstrap_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/oci"
)

// Hosts' containerds reach the registry by the control host's address, and by the name in image
// references.
func TestRegistryIsKnownByAddressAndName(t *testing.T) {
	keys, err := pki.Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddr("127.77.0.2") // not used by any region on this machine
	server, err := bootstrap.ListenRegistry(keys.Cluster, address, t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	pair, err := keys.Cluster.Issue("host", pki.Request{CN: "system:node:seed", Usages: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	host, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string, certificates ...tls.Certificate) error {
		roots := x509.NewCertPool()
		roots.AddCert(keys.Cluster.Certificate())
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{ServerName: name, RootCAs: roots, Certificates: certificates}}}
		resp, err := c.Get("https://" + netip.AddrPortFrom(address, config.RegistryPort).String() + "/v2/")
		if err != nil {
			return err
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("got status %s, want 200", resp.Status)
		}
		return nil
	}
	for _, name := range []string{address.String(), oci.Registry} {
		if err := get(name, host); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	if err := get(oci.Registry); err == nil {
		t.Error("a client without a certificate was answered, want a failed handshake")
	}
}
