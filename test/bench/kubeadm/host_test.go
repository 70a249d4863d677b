package kubeadm

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// kubeadm gets of regiond's settings what the host demands, and none that are regiond's own choice.
func TestConfiguration(t *testing.T) {
	got, err := configuration("testdata", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/kubeadm.yaml"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant %s:\n%s", got, file, want)
	}
}

// An image holds its program where the manifests call it from; kube-proxy's holds nft, too.
func TestImages(t *testing.T) {
	programs := t.TempDir()
	for _, program := range []string{"etcd", "kube-proxy"} {
		if err := os.WriteFile(filepath.Join(programs, program), []byte("this is "+program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	references := []string{"registry.example/etcd:1.2.3-0", "registry.example/kube-proxy:v1.2.3", "registry.example/pause:3"}
	if err := writeImages(references, programs, archive); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ reference, file, content string }{
		{references[0], "usr/local/bin/etcd", "this is etcd"},
		{references[1], "usr/local/bin/kube-proxy", "this is kube-proxy"},
		{references[1], "usr/sbin/nft", "\x7fELF"},
		{references[2], "usr/local/bin/pause", "no image"},
	} {
		if got := fileOf(t, archive, c.reference, c.file); !strings.HasPrefix(got, c.content) {
			t.Errorf("%s in %s: got %.20q, want %q", c.file, c.reference, got, c.content)
		}
	}
}

// fileOf an image in an archive.
func fileOf(t *testing.T, archive, reference, file string) string {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		return "no image"
	}
	content, found, err := tarFind(mutate.Extract(image), file)
	if err != nil || !found {
		t.Errorf("%s in %s: found %t, %v", file, reference, found, err)
	}
	return content
}

func tarFind(r io.ReadCloser, file string) (content string, found bool, err error) {
	defer r.Close()
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		if strings.TrimPrefix(header.Name, "/") == file {
			b, err := io.ReadAll(archive)
			return string(b), true, err
		}
	}
}
