package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFile replaces a file as a whole and flushes it. An equal one is left alone.
func writeFile(path string, content []byte, mode os.FileMode) (err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return os.Chmod(path, mode)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error says why
		}
	}()
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
