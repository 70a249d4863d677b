package pull

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/oci/ocitest"
)

// TestMain lets the test's program serve images, as the benchmark's does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Program {
		if err := Serve(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// All hosts pull all of an image from a registry in a process of its own.
func TestPull(t *testing.T) {
	content := make([]byte, 1<<20)
	rand.Read(content)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "content", Size: int64(len(content)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	imageDir := t.TempDir()
	ocitest.Publish(t, imageDir, "epoxy", map[string][]byte{"nova": layer.Bytes()})

	p, err := newPeers(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	images, err := imagesOf(oci.LayoutDir(imageDir))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	group, serving := errgroup.WithContext(ctx)
	address, err := p.serveOwn(serving, group, imageDir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.pull(serving, address, images)
	if want := int64(hosts * len(content)); err != nil || got < want {
		t.Errorf("got %d bytes and %v, want at least %d", got, err, want)
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
