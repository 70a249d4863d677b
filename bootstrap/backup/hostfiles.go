package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"regiond.dev/regiond/machine/atomicfile"
)

// HostFiles are files outside of the data directory that region.yaml names, and itself. They are
// restored to where they were. What is there already stays: the operator may have put it there for
// this host.
type HostFiles struct {
	// As is the name in backups.
	As string
	// Paths of files, which may be missing, and each of which may be there more than once.
	Paths []string
	// Root is the folder that they are restored below, / but for tests.
	Root string
	// Kept is told of each file that differs from the backup's and stays. May be nil.
	Kept func(path string)
}

// Name in backups.
func (h HostFiles) Name() string { return h.As }

// Entry is the name in backups of the file with a path.
func (h HostFiles) Entry(path string) string { return h.As + path }

// Backup hands in the files that are there.
func (h HostFiles) Backup(_ context.Context, add func(name string, content io.Reader) error) error {
	done := map[string]bool{}
	for _, path := range h.Paths {
		if done[path] {
			continue
		}
		done[path] = true
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := add(strings.TrimPrefix(path, "/"), f); err != nil {
			return err
		}
	}
	return nil
}

// Restore a file if there is none.
func (h HostFiles) Restore(_ context.Context, name string, content io.Reader) error {
	path := filepath.Join(h.Root, name)
	want, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	switch there, err := os.ReadFile(path); {
	case err == nil && bytes.Equal(there, want):
		return nil
	case err == nil:
		if h.Kept != nil {
			h.Kept(path)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Write(path, want, 0o600)
}

// Finish has nothing left to do.
func (h HostFiles) Finish(context.Context) error { return nil }
