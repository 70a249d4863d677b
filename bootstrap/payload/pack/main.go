// Command pack turns built programs into the payload: it puts pause and coredns into OCI images in
// one archive, compresses every piece with zstd and writes the manifest. The output depends only on
// the programs' bytes. A piece that is already packed is kept.
//
//	pack -programs DIR -out DIR
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"regiond.dev/regiond/bootstrap/payload"
)

// maxAgent bounds the node agent, in bytes: it is in every image and runs on every server.
const maxAgent = 30e6

func main() {
	programs := flag.String("programs", "", "folder with the built programs")
	out := flag.String("out", "", "folder to be embedded")
	flag.Parse()
	if err := run(*programs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(programs, out string) error {
	packed, err := readManifest(out)
	if err != nil {
		return err
	}
	archive := filepath.Join(programs, payload.Images)
	err = writeImages(archive, []image{
		{name: payload.ImagePause, program: filepath.Join(programs, "pause")},
		{name: payload.ImageCoreDNS, program: filepath.Join(programs, "coredns")},
	})
	if err != nil {
		return err
	}
	manifest := payload.Manifest{}
	pieces := []payload.Piece{
		{Name: payload.ContainerdShim, Host: true, Executable: true},
		{Name: payload.Images, Host: true},
		{Name: payload.RegiondInit, Executable: true},
		{Name: payload.RegiondNode, Executable: true},
		{Name: payload.Runc, Host: true, Executable: true},
	}
	for _, name := range payload.CNIPlugins {
		pieces = append(pieces, payload.Piece{Name: name, Host: true, Executable: true})
	}
	for _, piece := range pieces {
		in := filepath.Join(programs, piece.Name)
		if piece.SHA256, piece.Size, err = sum(in); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is not built", in)
		} else if err != nil {
			return err
		}
		if piece.Name == payload.RegiondNode && piece.Size > maxAgent {
			return fmt.Errorf("%s has %d bytes, the limit is %d; see what was added: go list -deps ./cmd/regiond-node", in, piece.Size, int(maxAgent))
		}
		to := filepath.Join(out, piece.Name+".zst")
		if _, err := os.Stat(to); err != nil || packed[piece.Name] != piece.SHA256 {
			if err := compress(in, to); err != nil {
				return err
			}
			fmt.Println("packed", piece.Name)
		}
		manifest.Pieces = append(manifest.Pieces, piece)
	}
	return writeManifest(out, manifest)
}

// readManifest returns the digests of the pieces that are already packed.
func readManifest(out string) (map[string]string, error) {
	packed := map[string]string{}
	raw, err := os.ReadFile(filepath.Join(out, "manifest.json"))
	if errors.Is(err, os.ErrNotExist) {
		return packed, nil
	}
	if err != nil {
		return nil, err
	}
	var m payload.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return packed, nil //nolint:nilerr // a manifest in another format: pack everything again
	}
	for _, p := range m.Pieces {
		packed[p.Name] = p.SHA256
	}
	return packed, nil
}

// writeManifest leaves an equal manifest alone, so that its time does not change and nothing is
// relinked.
func writeManifest(out string, m payload.Manifest) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(out, "manifest.json")
	if old, err := os.ReadFile(path); err == nil && string(old) == string(raw) {
		return nil
	}
	return replace(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

func sum(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }() // read only
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	return hex.EncodeToString(hash.Sum(nil)), n, err
}

func compress(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	return replace(to, func(w io.Writer) error {
		encoder, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		if err != nil {
			return err
		}
		if _, err := io.Copy(encoder, in); err != nil {
			return errors.Join(err, encoder.Close())
		}
		return encoder.Close()
	})
}

// replace writes a temporary file and renames it, so that an interrupted build leaves no partial
// file to be embedded.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(filepath.Dir(path)), ".pack-*") // beside files/, because everything inside gets embedded
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // already renamed on success
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
