package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/oci/ocitest"
)

// world is a registry that serves an images folder over TLS.
type world struct {
	imageDir string
	address  string
	roots    *x509.CertPool
	client   tls.Certificate
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{imageDir: t.TempDir(), roots: x509.NewCertPool()}
	p, err := pki.Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.roots.AddCert(p.Cluster.Certificate())
	certificate, err := p.Cluster.ServingCertificate("registry", "regiond-registry", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	w.client = issue(t, p.Cluster, pki.Client)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	s := serverOf(Config{Layout: oci.LayoutDir(w.imageDir), Certificate: certificate, Clients: w.roots, Log: slog.New(slog.DiscardHandler)}, listener)
	done := make(chan error, 1)
	ctx := t.Context() // is cancelled before the cleanup
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("registry stopped: %v", err)
		}
	})
	return w
}

func issue(t *testing.T, a *pki.Authority, usage pki.Usage) tls.Certificate {
	t.Helper()
	pair, err := a.Issue("host", pki.Request{CN: "system:node:seed", Org: []string{"system:nodes"}, Usages: usage})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func (w *world) transport(certificates ...tls.Certificate) http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.roots, Certificates: certificates}, DisableKeepAlives: true}
}

// pull pulls the whole content with go-containerregistry's client.
func (w *world) pull(t *testing.T, image oci.Image) error {
	t.Helper()
	reference, err := name.NewDigest(w.address + "/" + image.Repository + "@" + image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(reference, remote.WithTransport(w.transport(w.client)), remote.WithRetryPredicate(func(error) bool { return false }))
	if err != nil {
		return err
	}
	layers, err := pulled.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		r, err := layer.Compressed()
		if err != nil {
			return err
		}
		// The client checks digests as it reads.
		_, err = io.Copy(io.Discard, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return validate.Image(pulled)
}

func TestPull(t *testing.T) {
	w := newWorld(t)
	set := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"keystone": ocitest.Layer(t, "file", "k"), "nova": ocitest.Layer(t, "file", "n")})
	for name, image := range set.Images {
		if err := w.pull(t, image); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Images that are built while the registry runs are served, even if there were none at first.
func TestFollowsIndex(t *testing.T) {
	w := newWorld(t)
	nowhere := oci.Image{Repository: "openstack/epoxy/nova", Digest: "sha256:" + strings.Repeat("0", 64)}
	if err := w.pull(t, nowhere); !answered(err, http.StatusNotFound) {
		t.Errorf("empty layout: got error %v, want 404", err)
	}
	first := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "one")}).Images["nova"]
	if err := w.pull(t, first); err != nil {
		t.Error(err)
	}
	second := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "two")}).Images["nova"]
	if err := errors.Join(w.pull(t, first), w.pull(t, second)); err != nil {
		t.Error(err)
	}
}

func TestRefusesWithoutCertificate(t *testing.T) {
	w := newWorld(t)
	other, err := pki.Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]*http.Client{
		"none":                {Transport: w.transport()},
		"of another region":   {Transport: w.transport(issue(t, other.Cluster, pki.Client))},
		"for use by a server": {Transport: w.transport(issue(t, other.Cluster, pki.Server))},
	} {
		resp, err := client.Get("https://" + w.address + "/v2/")
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("certificate %s: got the answer %s, want a failed handshake", name, resp.Status)
		}
	}
	resp, err := (&http.Client{Transport: w.transport(w.client)}).Get("https://" + w.address + "/v2/")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("with a certificate: got %v, error %v; want 200", resp, err)
	}
}

// A blob whose content does not match its digest is detected by the client that pulls it.
func TestDamagedBlob(t *testing.T) {
	w := newWorld(t)
	image := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "n")}).Images["nova"]
	layer := ocitest.Damage(t, w.imageDir, image)
	if err := w.pull(t, image); err == nil || !strings.Contains(err.Error(), layer.Hex) {
		t.Errorf("error %v, want one that names %s", err, layer)
	}
}

func answered(err error, status int) bool {
	var e *transport.Error
	return errors.As(err, &e) && e.StatusCode == status
}

func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	set := ocitest.Publish(t, dir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "n"), "keystone": ocitest.Layer(t, "file", "k")})
	layout := oci.LayoutDir(dir)
	// A blob of no image.
	stray := strings.Repeat("a", 64)
	if err := os.WriteFile(filepath.Join(layout, "blobs", "sha256", stray), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	nova, keystone := "/v2/openstack/epoxy/nova", set.Images["keystone"]
	h := Handler(layout, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{http.MethodGet, "/v2/", http.StatusOK, ""},
		{http.MethodHead, nova + "/manifests/" + set.Images["nova"].Digest, http.StatusOK, ""},
		{http.MethodGet, nova + "/manifests/" + keystone.Digest, http.StatusNotFound, codeManifestUnknown},
		{http.MethodGet, nova + "/manifests/latest", http.StatusNotFound, codeManifestUnknown},
		{http.MethodGet, nova + "/blobs/" + set.Images["nova"].Digest, http.StatusNotFound, codeBlobUnknown},
		{http.MethodGet, nova + "/blobs/sha256:" + stray, http.StatusNotFound, codeBlobUnknown},
		{http.MethodGet, nova + "/blobs/sha256:../../../index.json", http.StatusNotFound, codeBlobUnknown},
		{http.MethodGet, "/v2/openstack/zed/nova/manifests/" + keystone.Digest, http.StatusNotFound, codeNameUnknown},
		{http.MethodGet, "/v2/_catalog", http.StatusNotFound, codeUnsupported},
		{http.MethodGet, "/", http.StatusNotFound, codeUnsupported},
		{http.MethodPut, nova + "/manifests/latest", http.StatusMethodNotAllowed, codeUnsupported},
		{http.MethodPost, nova + "/blobs/uploads/", http.StatusMethodNotAllowed, codeUnsupported},
		{http.MethodDelete, nova + "/manifests/" + keystone.Digest, http.StatusMethodNotAllowed, codeUnsupported},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.status || (c.code != "" && !strings.Contains(w.Body.String(), c.code)) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.status, c.code)
		}
	}
}

// An interrupted pull resumes where it stopped.
func TestPartOfBlob(t *testing.T) {
	dir := t.TempDir()
	ocitest.Publish(t, dir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "n")})
	layers, err := ocitest.Image(t, ocitest.Layer(t, "file", "n")).Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(oci.BlobPath(oci.LayoutDir(dir), digest))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/v2/openstack/epoxy/nova/blobs/"+digest.String(), nil)
	r.Header.Set("Range", "bytes=10-")
	w := httptest.NewRecorder()
	Handler(oci.LayoutDir(dir), slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	rest, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusPartialContent || string(rest) != string(content[10:]) {
		t.Errorf("got status %d, %d bytes, error %v; want 206 and the rest after byte 10", w.Code, len(rest), err)
	}
}
