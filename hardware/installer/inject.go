package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/node/identity"
)

// Where an image has its boot loaders' configuration, below the root of the ESP.
var (
	entryPattern = filepath.Join("loader", "entries", "*.conf")
	grubConfig   = filepath.Join("grub", "grub.cfg")
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

// addKernelArguments adds the profile's kernel arguments to every boot entry on the ESP.
func addKernelArguments(dir string, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	entries, err := filepath.Glob(filepath.Join(dir, entryPattern))
	if err != nil {
		return fmt.Errorf("add kernel arguments: %w", err)
	}
	if len(entries) == 0 {
		return fmt.Errorf("add kernel arguments: the image's ESP has no boot entry %s", entryPattern)
	}
	for _, path := range entries {
		if err := rewrite(path, arguments, addToEntry); err != nil {
			return err
		}
	}
	// Images for UEFI only have no GRUB.
	if err := rewrite(filepath.Join(dir, grubConfig), arguments, addToGRUB); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func rewrite(path string, arguments []string, add func(string, []string) (string, error)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("add kernel arguments: %w", err)
	}
	changed, err := add(string(text), arguments)
	if err == nil {
		err = atomicfile.Write(path, []byte(changed), 0o644)
	}
	if err != nil {
		return fmt.Errorf("add kernel arguments to %s: %w", path, err)
	}
	return nil
}
