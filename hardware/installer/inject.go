package installer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/identity"
)

// writeIdentity writes the identity below the root of the data partition. Its folder and the file are for
// root only: the file holds the join token.
func writeIdentity(dir string, id identity.Identity) error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, identity.File), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}
