// Package atomicfile replaces files as a whole: readers, and a machine that loses power, find the old content or the new one and
// nothing between. A file is written beside its place, synced and renamed, and its folder is synced, without which the name may
// be lost (fsync(2)).
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file. The mode is set whatever the umask is.
func Write(path string, content []byte, mode fs.FileMode) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Commit(mode)
}

// File is written beside the place that it takes when it is committed. Nobody but the owner can read it until then.
type File struct {
	*os.File
	path string
	done bool
}

// Create begins a file that is to replace the one at path. Commit or Discard ends it.
func Create(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), Temporary(filepath.Base(path))) // with mode 0600
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Temporary is the pattern (filepath.Match) of the names that files of a name have until they are
// committed. A crash may leave one.
func Temporary(name string) string { return "." + name + ".new-*" }

// Commit puts the file in its place. When it fails the old file is still there and the new one is removed.
func (f *File) Commit(mode fs.FileMode) error { return f.CommitAs(f.path, mode) }

// CommitAs puts the file in another place in the same folder, for names that follow from the content.
func (f *File) CommitAs(path string, mode fs.FileMode) error {
	if f.done {
		return fs.ErrClosed
	}
	f.done = true
	err := errors.Join(f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncFolder(filepath.Dir(path))
}

// Discard removes the file unless it was committed; it may be deferred beside Commit.
func (f *File) Discard() error {
	if f.done {
		return nil
	}
	f.done = true
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
