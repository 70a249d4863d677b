package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// extracting marks folders that are being written; a crash may leave them behind.
const extracting = ".extracting-"

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Extract writes the host's pieces to <dir>/<digest>/ and returns that path. The folder appears
// complete or not at all. An existing folder is checked and kept, so that running containers keep
// their own runtime; a damaged piece in it is replaced. Folders of other versions are left alone:
// running shims were started from them.
func (p *Payload) Extract(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("extracting the payload: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, extracting+"*"))
	if err != nil {
		return "", fmt.Errorf("looking for leftovers in %s: %w", dir, err)
	}
	for _, l := range left {
		if err := os.RemoveAll(l); err != nil {
			return "", fmt.Errorf("removing a half-written payload: %w", err)
		}
	}
	final := filepath.Join(dir, p.digest[:16])
	if _, err := os.Stat(final); err == nil {
		return final, p.repair(final)
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("extracting the payload: %w", err)
	}
	temporary, err := os.MkdirTemp(dir, extracting)
	if err != nil {
		return "", fmt.Errorf("extracting the payload: %w", err)
	}
	for _, piece := range p.manifest.Pieces {
		if !piece.Host {
			continue
		}
		if err := p.write(piece, filepath.Join(temporary, piece.Name)); err != nil {
			return "", errors.Join(err, os.RemoveAll(temporary))
		}
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", fmt.Errorf("extracting the payload: %w", err)
	}
	if err := os.Rename(temporary, final); err != nil {
		return "", fmt.Errorf("putting the payload in place: %w", err)
	}
	return final, nil
}

// repair replaces pieces whose content does not match the manifest: a power cut may have lost
// unflushed data.
func (p *Payload) repair(dir string) error {
	for _, piece := range p.manifest.Pieces {
		if !piece.Host {
			continue
		}
		path := filepath.Join(dir, piece.Name)
		if intact(path, piece) {
			continue
		}
		temporary := filepath.Join(dir, extracting+piece.Name)
		if err := os.RemoveAll(temporary); err != nil {
			return fmt.Errorf("repairing the payload: %w", err)
		}
		if err := p.write(piece, temporary); err != nil {
			return err
		}
		if err := os.Rename(temporary, path); err != nil {
			return fmt.Errorf("repairing the payload: %w", err)
		}
	}
	return nil
}

func intact(path string, piece Piece) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != piece.Size || info.Mode().Perm() != piece.mode() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return false
	}
	return hex.EncodeToString(hash.Sum(nil)) == piece.SHA256
}

func (p Piece) mode() os.FileMode {
	if p.Executable {
		return 0o755
	}
	return 0o644
}

// write extracts one piece and checks its digest.
func (p *Payload) write(piece Piece, path string) (err error) {
	in, err := p.Open(piece.Name)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(fmt.Errorf("extracting %s: %w", piece.Name, err), in.Close())
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, hash), in)
	if err == nil {
		err = out.Chmod(piece.mode()) // not by OpenFile, whose mode is subject to the umask
	}
	if err = errors.Join(err, out.Close(), in.Close()); err != nil {
		return fmt.Errorf("extracting %s to %s: %w", piece.Name, path, err)
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != piece.SHA256 {
		return fmt.Errorf("piece %s of the payload has sha256 %s, its manifest has %s; run make payload, then rebuild", strings.TrimSuffix(piece.Name, ".zst"), sum, piece.SHA256)
	}
	return nil
}
