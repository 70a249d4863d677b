package oci_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/images/oci/ocitest"
)

func TestUnpack(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "usr/bin/program", Typeflag: tar.TypeReg, Mode: 0o755, Size: 4, Uid: 42434, Gid: 42434},
		{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("text")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	images := t.TempDir()
	set := ocitest.Publish(t, images, "epoxy", map[string][]byte{"mariadb": b.Bytes()})
	dir := filepath.Join(t.TempDir(), "root")
	if err := oci.Unpack(t.Context(), images, set.Images["mariadb"], dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "bin/program")); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v; want the program by its link", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "dev/null")); err != nil || info.Mode() != fs.ModeDevice|fs.ModeCharDevice|0o666 {
		t.Errorf("dev/null is %v, %v; want a device for all", info, err)
	}

	references := []string{set.Images["mariadb"].Reference(), oci.Registry + "/x@sha256:" + strings.Repeat("0", 64)}
	if got := oci.Missing(images, references); len(got) != 1 || got[0] != references[1] {
		t.Errorf("got %q missing, want the second one of %q", got, references)
	}

	// A damaged blob is not run.
	digest, err := v1.NewHash(set.Images["mariadb"].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest := oci.BlobPath(oci.LayoutDir(images), digest)
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, bytes.Replace(text, []byte("layer"), []byte("lay r"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	var damaged *oci.MismatchError
	err = oci.Unpack(t.Context(), images, set.Images["mariadb"], filepath.Join(t.TempDir(), "again"))
	if !errors.As(err, &damaged) && (err == nil || !strings.Contains(err.Error(), "manifest")) {
		t.Errorf("got %v, want that the image is damaged", err)
	}
}
