package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/machine/atomicfile"
)

// leftovers are the patterns of temporary files that interrupted writes leave, by this version and
// by versions until December 2026.
var leftovers = []string{atomicfile.Temporary("*"), ".pki-tmp-*"}

// removeLeftovers deletes temporary files of interrupted writes in dir.
func removeLeftovers(dir string) error {
	for _, pattern := range leftovers {
		left, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("looking for leftovers in %s: %w", dir, err)
		}
		for _, f := range left {
			if err := os.Remove(f); err != nil {
				return fmt.Errorf("removing a partial file: %w", err)
			}
		}
	}
	return nil
}

// file is a file to write.
type file struct {
	path    string
	content []byte
}

// writeFiles replaces files atomically. All are written to temporary files and flushed before the
// first rename, so that a full disk leaves all of them unchanged. The mode is always 0600: public
// parts are handed out by the API server, not read from this folder.
func writeFiles(files ...file) (err error) {
	aside := make([]*atomicfile.File, len(files))
	defer func() {
		for _, f := range aside {
			if f != nil {
				err = errors.Join(err, f.Discard())
			}
		}
	}()
	for i, f := range files {
		if aside[i], err = atomicfile.Create(f.path); err != nil {
			return fmt.Errorf("writing %s: %w", f.path, err)
		}
		if _, err = aside[i].Write(f.content); err == nil {
			err = aside[i].Sync()
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.path, err)
		}
	}
	for i, f := range files {
		if err = aside[i].Commit(0o600); err != nil {
			return fmt.Errorf("putting %s in place: %w", f.path, err)
		}
	}
	return nil
}

func writeFile(path string, content []byte) error { return writeFiles(file{path, content}) }

func writePEM(path, kind string, der []byte) error { return writeFiles(pemFile(path, kind, der)) }

func pemFile(path, kind string, der []byte) file {
	return file{path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})}
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	f, err := keyFile(path, key)
	if err != nil {
		return err
	}
	return writeFiles(f)
}

func keyFile(path string, key *ecdsa.PrivateKey) (file, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return file{}, fmt.Errorf("encoding %s: %w", path, err)
	}
	return pemFile(path, "EC PRIVATE KEY", der), nil
}

func writePublicKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return writePEM(path, "PUBLIC KEY", der)
}

func readPEM(path, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s has no PEM block %q; restore it from a backup", path, kind)
	}
	return block.Bytes, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	der, err := readPEM(path, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore it from a backup", path, err)
	}
	return cert, nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(path, "EC PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore it from a backup", path, err)
	}
	return key, nil
}
