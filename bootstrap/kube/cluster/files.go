package cluster

import (
	"bytes"
	"fmt"
	"os"

	"regiond.dev/regiond/machine/atomicfile"
)

// writeFile replaces a file. An equal file is left alone, so that a start writes little.
func writeFile(path string, content []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return os.Chmod(path, mode)
	}
	if err := atomicfile.Write(path, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
