package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/atomicfile"
)

// Folder backs up all files of a folder that only root reads, and restores them. Links and other
// kinds of files are refused: none of regiond's folders has any.
type Folder struct {
	// As is the name in backups.
	As   string
	Path string
}

// Name in backups.
func (f Folder) Name() string { return f.As }

// Backup hands in each file.
func (f Folder) Backup(_ context.Context, add func(name string, content io.Reader) error) error {
	return filepath.WalkDir(f.Path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if half, err := filepath.Match(atomicfile.Temporary("*"), d.Name()); half || err != nil {
			return err // being written
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file (%s); move it away", path, d.Type())
		}
		name, err := filepath.Rel(f.Path, path)
		if err != nil {
			return err
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // replaced or removed meanwhile
		}
		if err != nil {
			return err
		}
		return add(name, file)
	})
}

// Restore writes a file.
func (f Folder) Restore(_ context.Context, name string, content io.Reader) error {
	path := filepath.Join(f.Path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return WriteFile(path, content)
}

// Finish has nothing left to do.
func (f Folder) Finish(context.Context) error { return nil }

// File backs up a file that a function writes, and restores it by another.
type File struct {
	// As is the name in backups, of the source and of its one entry.
	As, Entry string
	Read      func(ctx context.Context, w io.Writer) error
	Write     func(ctx context.Context, content io.Reader) error
}

// Name in backups.
func (f File) Name() string { return f.As }

// Backup hands in the file.
func (f File) Backup(ctx context.Context, add func(name string, content io.Reader) error) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(f.Read(ctx, w)) }()
	err := add(f.Entry, r)
	return errors.Join(err, r.CloseWithError(errors.New("the backup has ended")))
}

// Restore the file.
func (f File) Restore(ctx context.Context, name string, content io.Reader) error {
	if name != f.Entry {
		return fmt.Errorf("unknown: %s is expected here", f.Entry)
	}
	return f.Write(ctx, content)
}

// Finish has nothing left to do.
func (f File) Finish(context.Context) error { return nil }

// WriteFile writes a new file that only its owner can read. It is on the disk when this returns.
func WriteFile(path string, content io.Reader) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}

// syncAll makes everything in the file system of a folder durable (syncfs(2)).
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
