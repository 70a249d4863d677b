// Package install installs regiond on a host as a systemd service, and removes it again. It records
// each file with a checksum before writing it, so that a removal deletes only files that are
// unchanged since.
package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/machine/atomicfile"
)

// Record lists what was installed outside the data directory. It is a separate file because the
// running regiond holds the journal open.
type Record struct {
	// Files by path with the SHA-256 of their written content, in hex.
	Files map[string]string `json:"files"`
	// Directories that did not exist before.
	Directories []string `json:"directories,omitempty"`
}

// ReadRecord reads the record in a data directory. Without one, nothing was installed.
func ReadRecord(dataDir string) (Record, error) {
	r := Record{Files: map[string]string{}}
	path := datadir.InstallRecord.In(dataDir)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w; remove the installed files by hand, then this file", path, err)
	}
	return r, nil
}

func (r Record) write(dataDir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(datadir.InstallRecord.In(dataDir), append(b, '\n'), 0o600)
}

// fileSum returns the SHA-256 of a file in hex; empty if it does not exist.
func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
