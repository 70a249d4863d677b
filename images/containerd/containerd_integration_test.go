//go:build integration

package containerd_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/containerd"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/oci/ocitest"
	"regiond.dev/regiond/images/registry"
)

var regiond = flag.String("regiond", "", "the built regiond, for its containerd")

// world is a containerd configured as on a seed host, and the registry that it pulls from.
type world struct {
	node     config.Node
	imageDir string
	host     *containerd.Client
	images   cri.ImageServiceClient
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// An address of the loopback network that no region on this machine listens on.
	w := &world{imageDir: t.TempDir(), node: config.Node{
		Name: "seed", Address: netip.MustParseAddr("127.77.0.1"), DataDir: t.TempDir(), SandboxImage: "regiond.local/pause:1",
		PodCIDR: netip.MustParsePrefix("10.42.0.0/16"), NodePodCIDR: netip.MustParsePrefix("10.42.0.0/24"),
		ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"),
	}}
	keys, err := pki.Load(filepath.Join(w.node.DataDir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	w.node.PKI = keys
	w.node.Certificates.KubeletClient, err = keys.Cluster.Issue("kubelet-client",
		pki.Request{CN: "system:node:seed", Org: []string{"system:nodes"}, Usages: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	w.serve(t)
	w.startContainerd(t)
	return w
}

func (w *world) serve(t *testing.T) {
	t.Helper()
	certificate, err := w.node.PKI.Cluster.ServingCertificate("registry", "regiond-registry", w.node.Address.String())
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(w.node.PKI.Cluster.Certificate())
	server, err := registry.Listen(registry.Config{
		Address: netip.AddrPortFrom(w.node.Address, config.RegistryPort), Layout: oci.LayoutDir(w.imageDir), Certificate: certificate,
		Clients: clients, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) startContainerd(t *testing.T) {
	t.Helper()
	files, err := w.node.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	daemon := exec.Command(*regiond)
	daemon.Args = w.node.Containerd()
	var log bytes.Buffer
	daemon.Stdout, daemon.Stderr = &log, &log
	daemon.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait() // it was terminated above
		if t.Failed() {
			t.Logf("containerd's log:\n%s", log.String())
		}
	})
	connection, err := grpc.NewClient("unix://"+w.node.ContainerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	w.images = cri.NewImageServiceClient(connection)
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := w.images.ListImages(ctx, &cri.ListImagesRequest{}, grpc.WaitForReady(true))
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.host, err = containerd.Open(w.node.ContainerdSocket(), w.imageDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.host.Close() })
}

// ensure pulls a set and returns what was pulled.
func (w *world) ensure(ctx context.Context, set oci.Set) (pulled []string, err error) {
	err = w.host.EnsurePulled(ctx, set, func(image string, number, of int) {
		pulled = append(pulled, fmt.Sprintf("%s %d/%d", image, number, of))
	})
	return pulled, err
}

// waitPinned waits until the CRI, which the kubelet relies on, reports whether an image is pinned.
// It learns of labels by events.
func (w *world) waitPinned(t *testing.T, image oci.Image, want bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		status, err := w.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image.Reference()}})
		return err == nil && status.Image != nil && status.Image.Pinned == want, err
	})
	if err != nil {
		t.Errorf("image %s: want pinned %v: %v", image.Reference(), want, err)
	}
}

func TestContainerdPulls(t *testing.T) {
	w := newWorld(t)
	first := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"keystone": ocitest.Layer(t, "file", "k"), "nova": ocitest.Layer(t, "file", "n")})
	pulled, err := w.ensure(t.Context(), first)
	if want := []string{"keystone 1/2", "nova 2/2"}; err != nil || !slices.Equal(pulled, want) {
		t.Fatalf("pulled %q, %v, want %q", pulled, err, want)
	}
	for _, image := range first.Images {
		w.waitPinned(t, image, true)
	}
	if pulled, err = w.ensure(t.Context(), first); err != nil || pulled != nil {
		t.Errorf("again: pulled %q, %v, want nothing", pulled, err)
	}
	second := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"keystone": ocitest.Layer(t, "file", "k"), "nova": ocitest.Layer(t, "file", "other")})
	if pulled, err = w.ensure(t.Context(), second); err != nil || !slices.Equal(pulled, []string{"nova 1/1"}) {
		t.Errorf("next set: pulled %q, %v, want nova", pulled, err)
	}
	w.waitPinned(t, second.Images["nova"], true)
	w.waitPinned(t, first.Images["nova"], false)
	w.waitPinned(t, first.Images["keystone"], true)
}

func TestContainerdFindsDamage(t *testing.T) {
	w := newWorld(t)
	set := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "n")})
	layer := ocitest.Damage(t, w.imageDir, set.Images["nova"])
	_, err := w.ensure(t.Context(), set)
	var damaged *oci.MismatchError
	if !errors.As(err, &damaged) || damaged.Want != layer {
		t.Fatalf("error %v, want a mismatch of %s", err, layer)
	}
	for _, text := range []string{set.Images["nova"].Reference(), layer.String(), damaged.Got.String()} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
}

// ctr, containerd's own client, reads the same configuration of registries.
func TestCtrPulls(t *testing.T) {
	w := newWorld(t)
	image := ocitest.Publish(t, w.imageDir, "epoxy", map[string][]byte{"nova": ocitest.Layer(t, "file", "n")}).Images["nova"]
	ctr := exec.Command(*regiond)
	ctr.Args = []string{"ctr", "--address", w.node.ContainerdSocket(), "images", "pull", "--hosts-dir", w.node.Registries(), image.Reference()}
	if output, err := ctr.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
