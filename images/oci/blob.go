package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"regiond.dev/regiond/machine/atomicfile"
)

// blobsDir is the folder of an image layout's blobs, which are named by digest.
func blobsDir(layout string) string { return filepath.Join(layout, "blobs", "sha256") }

// BlobPath is the file of a blob in a layout.
func BlobPath(layout string, digest v1.Hash) string {
	return filepath.Join(blobsDir(layout), digest.Hex)
}

// blobWriter writes a blob whose digest is known when it is complete.
type blobWriter struct {
	layout string
	file   *atomicfile.File
	hash   hash.Hash
	size   int64
}

func newBlob(layout string) (*blobWriter, error) {
	if err := os.MkdirAll(blobsDir(layout), 0o755); err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	f, err := atomicfile.Create(filepath.Join(blobsDir(layout), "blob"))
	if err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	return &blobWriter{layout: layout, file: f, hash: sha256.New()}, nil
}

func (w *blobWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.hash.Write(p[:n]) // never fails (hash.Hash)
	w.size += int64(n)
	return n, err
}

// commit moves the blob to its path.
func (w *blobWriter) commit() (v1.Hash, error) {
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(w.hash.Sum(nil))}
	if err := w.file.CommitAs(BlobPath(w.layout, digest), 0o644); err != nil {
		return v1.Hash{}, fmt.Errorf("blob %s: %w", digest, err)
	}
	return digest, nil
}

// discard removes the unfinished blob.
func (w *blobWriter) discard() error { return w.file.Discard() }

// writeBlob writes a blob from memory.
func writeBlob(layout string, content []byte) (v1.Hash, error) {
	w, err := newBlob(layout)
	if err != nil {
		return v1.Hash{}, err
	}
	if _, err := w.Write(content); err != nil {
		return v1.Hash{}, fmt.Errorf("blob: %w", errors.Join(err, w.discard()))
	}
	return w.commit()
}

// MismatchError is a blob whose content does not match its digest.
type MismatchError struct {
	Path      string
	Want, Got v1.Hash
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s is damaged: want %s, got %s", e.Path, e.Want, e.Got)
}

// checkBlob compares a blob with its digest.
func checkBlob(layout string, digest v1.Hash) error {
	path := BlobPath(layout, digest)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("blob %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest.Hex {
		return &MismatchError{Path: path, Want: digest, Got: v1.Hash{Algorithm: "sha256", Hex: got}}
	}
	return nil
}
