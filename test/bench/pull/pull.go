// Package pull measures how long it takes to pull all component images: from regiond's registry
// beside `distribution`, the registry that most others are made of, in Debian's build. Both serve
// the same blobs on the loopback interface, over TLS, to clients that show certificates.
package pull

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/registry"
)

// Figures of one run.
type Figures struct {
	// Bytes were pulled from each, by Hosts that each pull every blob once.
	Bytes int64
	Hosts int
	// Own is the time of regiond's registry, Distribution that of the other one, the better of two runs each.
	Own, Distribution time.Duration
}

// Share of distribution's time that regiond's registry takes.
func (f Figures) Share() float64 { return f.Own.Seconds() / f.Distribution.Seconds() }

const (
	hosts = 4
	runs  = 2
	// startLimit is how long a server may take to listen.
	startLimit = 30 * time.Second
)

// Measure pulls the images of an images folder from both. distribution is its program; dir takes its files.
func Measure(ctx context.Context, distribution, imageDir, dir string) (f Figures, err error) {
	p, err := newPeers(dir)
	if err != nil {
		return f, err
	}
	images, err := imagesOf(oci.LayoutDir(imageDir))
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithCancel(ctx)
	group, serving := errgroup.WithContext(ctx)
	defer func() { cancel(); err = errors.Join(err, group.Wait()) }()
	own, err := p.serveOwn(serving, group, imageDir)
	if err != nil {
		return f, err
	}
	other, err := p.serveDistribution(serving, group, distribution, dir)
	if err != nil {
		return f, err
	}
	if err := p.push(serving, other, images); err != nil {
		return f, fmt.Errorf("push to distribution: %w", err)
	}
	f.Hosts = hosts
	for range runs {
		for _, r := range []struct {
			address string
			best    *time.Duration
		}{{own, &f.Own}, {other, &f.Distribution}} {
			started := time.Now()
			if f.Bytes, err = p.pull(serving, r.address, images); err != nil {
				return f, fmt.Errorf("pull from %s: %w", r.address, err)
			}
			if took := time.Since(started); *r.best == 0 || took < *r.best {
				*r.best = took
			}
		}
	}
	return f, nil
}

// image of a layout, by the repository it is pulled from.
type image struct {
	repository string
	image      v1.Image
}

func imagesOf(dir string) (images []image, err error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; build component images with: regiond image build", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Manifests {
		reference, ok := strings.CutPrefix(d.Annotations[oci.AnnotationName], oci.Registry+"/")
		if !ok {
			continue
		}
		repository, _, _ := strings.Cut(reference, "@")
		i, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		images = append(images, image{repository: repository, image: i})
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%s holds no component images; build them with: regiond image build", dir)
	}
	return images, nil
}

// peers share an authority, a server's certificate and a client's.
type peers struct {
	server    pki.Pair
	authority string // file
	roots     *x509.CertPool
	client    tls.Certificate
}

func newPeers(dir string) (*peers, error) {
	all, err := pki.Load(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	p := &peers{authority: filepath.Join(dir, "authority.pem"), roots: x509.NewCertPool()}
	p.roots.AddCert(all.Cluster.Certificate())
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: all.Cluster.Certificate().Raw})
	if err := os.WriteFile(p.authority, b, 0o600); err != nil {
		return nil, err
	}
	if p.server, err = all.Cluster.Issue("registry", pki.Request{CN: "registry", SANs: []string{"127.0.0.1"}, Usages: pki.Server}); err != nil {
		return nil, err
	}
	pair, err := all.Cluster.Issue("host", pki.Request{CN: "system:node:host", Org: []string{"system:nodes"}, Usages: pki.Client})
	if err != nil {
		return nil, err
	}
	p.client, err = tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	return p, err
}

// freeAddress of the loopback interface.
func freeAddress() (netip.AddrPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	return l.Addr().(*net.TCPAddr).AddrPort(), l.Close()
}

// Program is the command of this program that serves images as regiond does, in a process of its own like its peer.
const Program = "serve-registry"

// Serve is what Program does: it serves a layout until the context ends. args are what serveOwn gives it.
func Serve(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("got %d arguments, want: ADDRESS LAYOUT CERTIFICATE KEY AUTHORITY", len(args))
	}
	address, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return err
	}
	certificate, err := pki.Pair{CertFile: args[2], KeyFile: args[3]}.Follow()
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(args[4])
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority)
	server, err := registry.Listen(registry.Config{
		Address: address, Layout: args[1], Certificate: certificate, Clients: clients, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return server.Serve(ctx)
}

func (p *peers) serveOwn(ctx context.Context, group *errgroup.Group, imageDir string) (address string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	at, err := freeAddress()
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, self, Program, at.String(), oci.LayoutDir(imageDir), p.server.CertFile, p.server.KeyFile, p.authority)
	return at.String(), serve(ctx, group, "regiond's registry", c, at)
}

// configuration of distribution, as its documentation recommends it for files: with a cache of descriptors, without access log.
const configuration = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {cache: {blobdescriptor: inmemory}, filesystem: {rootdirectory: %q}}
http:
  addr: %s
  tls: {certificate: %q, key: %q, clientcas: [%q]}
`

func (p *peers) serveDistribution(ctx context.Context, group *errgroup.Group, program, dir string) (address string, err error) {
	at, err := freeAddress()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "distribution.yaml")
	text := fmt.Sprintf(configuration, filepath.Join(dir, "blobs"), at, p.server.CertFile, p.server.KeyFile, p.authority)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	return at.String(), serve(ctx, group, "distribution", exec.CommandContext(ctx, program, "serve", file), at)
}

// serve starts a server and waits until it listens. It runs until the context ends.
func serve(ctx context.Context, group *errgroup.Group, what string, c *exec.Cmd, at netip.AddrPort) error {
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	group.Go(func() error {
		if err := c.Wait(); ctx.Err() == nil {
			return fmt.Errorf("%s ended: %v: %s", what, err, said.String())
		}
		return nil
	})
	waiting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		connection, err := (&net.Dialer{}).DialContext(waiting, "tcp", at.String())
		if err == nil {
			return connection.Close()
		}
		select {
		case <-waiting.Done():
			return fmt.Errorf("%s does not listen on %s: %w", what, at, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// transport of one host: its own connections.
func (p *peers) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots, Certificates: []tls.Certificate{p.client}}, MaxIdleConnsPerHost: 4}
}

func (p *peers) push(ctx context.Context, address string, images []image) error {
	transport := p.transport()
	defer transport.CloseIdleConnections()
	for _, i := range images {
		digest, err := i.image.Digest()
		if err != nil {
			return err
		}
		to, err := name.NewDigest(address + "/" + i.repository + "@" + digest.String())
		if err != nil {
			return err
		}
		if err := remote.Write(to, i.image, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
			return err
		}
	}
	return nil
}

// pull all images by all hosts at once, each blob once a host, as containerd does.
func (p *peers) pull(ctx context.Context, address string, images []image) (bytes int64, err error) {
	group, ctx := errgroup.WithContext(ctx)
	pulled := make([]int64, hosts)
	for h := range hosts {
		group.Go(func() (err error) {
			pulled[h], err = p.pullAll(ctx, address, images)
			return err
		})
	}
	err = group.Wait()
	for _, n := range pulled {
		bytes += n
	}
	return bytes, err
}

func (p *peers) pullAll(ctx context.Context, address string, images []image) (bytes int64, err error) {
	transport := p.transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	seen := map[v1.Hash]bool{}
	for _, i := range images {
		digest, err := i.image.Digest()
		if err != nil {
			return bytes, err
		}
		manifest, err := i.image.Manifest()
		if err != nil {
			return bytes, err
		}
		n, err := get(ctx, client, "https://"+address+"/v2/"+i.repository+"/manifests/"+digest.String(), string(manifest.MediaType))
		bytes += n
		if err != nil {
			return bytes, err
		}
		for _, d := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
			if seen[d.Digest] {
				continue
			}
			seen[d.Digest] = true
			n, err := get(ctx, client, "https://"+address+"/v2/"+i.repository+"/blobs/"+d.Digest.String(), "")
			bytes += n
			if err == nil && n != d.Size {
				err = fmt.Errorf("blob %s: got %d bytes, want %d", d.Digest, n, d.Size)
			}
			if err != nil {
				return bytes, err
			}
		}
	}
	return bytes, nil
}

// get reads an answer to its end.
func get(ctx context.Context, client *http.Client, url, accept string) (n int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}
