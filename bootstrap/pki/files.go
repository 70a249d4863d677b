package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// temporary marks files that are being written; a crash may leave them, and they are never read.
const temporary = ".pki-tmp-"

// removeLeftovers deletes what writes cut half-way have left in dir.
func removeLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, temporary+"*"))
	if err != nil {
		return fmt.Errorf("looking for leftovers in %s: %w", dir, err)
	}
	for _, f := range left {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("removing a half-written file: %w", err)
		}
	}
	return nil
}

// file is a file to be written.
type file struct {
	path    string
	content []byte
}

// writeFiles replaces files of one directory, each as a whole: all are written aside and flushed, then renamed in their order, and the
// directory is flushed too, so that after a power cut the old or the new content is there. A full disk leaves all of them as they
// were. Mode 0600 always: public parts are handed out by the API server, not by this folder.
func writeFiles(files ...file) (err error) {
	aside := make([]string, len(files))
	defer func() {
		for _, name := range aside {
			if err != nil && name != "" {
				_ = os.Remove(name) // the first error says why; it may be in place already, and Load removes it as well
			}
		}
	}()
	for i, f := range files {
		if aside[i], err = writeAside(f); err != nil {
			return err
		}
	}
	for i, f := range files {
		if err := os.Rename(aside[i], f.path); err != nil {
			return fmt.Errorf("putting %s in place: %w", f.path, err)
		}
	}
	dir := filepath.Dir(files[0].path)
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flushing %s: %w", dir, err)
	}
	defer func() { _ = d.Close() }() // opened for reading
	if err := d.Sync(); err != nil {
		return fmt.Errorf("flushing %s: %w", dir, err)
	}
	return nil
}

// writeAside writes and flushes the content beside the file and returns where.
func writeAside(f file) (string, error) {
	t, err := os.CreateTemp(filepath.Dir(f.path), temporary+"*") // creates with mode 0600
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", f.path, err)
	}
	_, err = t.Write(f.content)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return t.Name(), fmt.Errorf("writing %s: %w", f.path, err)
	}
	return t.Name(), nil
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
		return nil, fmt.Errorf("%s holds no PEM block %q; restore it from a backup", path, kind)
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
