package diskimage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteManifest validates a manifest and writes it to an image's folder, replacing what is there
// in one step. Written last, it is what makes a folder an image.
func WriteManifest(dir string, m *Manifest) error {
	if err := m.Validate(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("image manifest: %w", err)
	}
	if err := writeFile(filepath.Join(dir, ManifestFile), append(b, '\n')); err != nil {
		return fmt.Errorf("write image manifest: %w", err)
	}
	return nil
}

// ReadManifest reads and validates the manifest of an image's folder.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read image manifest: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	m := new(Manifest)
	if err := decoder.Decode(m); err != nil {
		return nil, fmt.Errorf("read image manifest %s: %w", path, err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Verify reads every chunk of an image's folder and reports all that are missing or damaged.
func Verify(dir string, m *Manifest) error {
	decoder, err := NewDecoder()
	if err != nil {
		return err
	}
	defer decoder.Close()
	var errs []error
	for _, p := range m.Partitions {
		for _, c := range p.Chunks {
			b, err := os.ReadFile(filepath.Join(dir, ChunkDir, c.SHA256))
			if err == nil {
				_, err = decoder.Decode(c, b)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("image %s, partition %s at %d: %w", m.Version, p.Label, c.Offset, err))
			}
		}
	}
	return errors.Join(errs...)
}
