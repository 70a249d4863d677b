package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"regiond.dev/regiond/machine/atomicfile"
)

// Store keeps backups.
type Store interface {
	// Create begins a backup. It MUST NOT be listed, or replace another, before it is committed.
	Create(ctx context.Context, name string) (Upload, error)
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List the backups in it, the newest first. Other files in the same place are left out.
	List(ctx context.Context) ([]Stored, error)
	Remove(ctx context.Context, name string) error
	// String is the place in words for people, without secrets.
	String() string
}

// Upload is a backup that is being written. Commit or Discard ends it.
type Upload interface {
	io.Writer
	Commit() error
	Discard() error
}

// Stored is a backup in a store, as far as its name tells: the rest is encrypted.
type Stored struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	// ID is the beginning of the region's UID.
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Size int64     `json:"size"`
}

// leftoverAge is how old what a backup left is when it was cut off for sure: none takes that long.
const leftoverAge = 24 * time.Hour

const (
	nameTime   = "20060102T150405Z"
	nameSuffix = ".tar.zst.age"
)

var namePattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)-([0-9a-f]{8})-([0-9]{8}T[0-9]{6}Z)\.tar\.zst\.age$`)

// FileName of a backup: REGION-ID-TIME.tar.zst.age.
func FileName(m Manifest) string {
	return m.Region + "-" + idOf(m.UID) + "-" + m.Time.UTC().Format(nameTime) + nameSuffix
}

func idOf(uid uuid.UUID) string { return uid.String()[:8] }

// ParseName tells what a file name says of a backup; ok is false for other files.
func ParseName(name string) (s Stored, ok bool) {
	m := namePattern.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	t, err := time.Parse(nameTime, m[4])
	return Stored{Name: name, Region: m[1], ID: m[3], Time: t}, err == nil
}

// newestFirst sorts by time.
func newestFirst(all []Stored) []Stored {
	slices.SortFunc(all, func(a, b Stored) int { return b.Time.Compare(a.Time) })
	return all
}

// Of are the backups of one region, by the name and the beginning of its UID.
func Of(all []Stored, region, id string) []Stored {
	return slices.DeleteFunc(slices.Clone(all), func(s Stored) bool { return s.Region != region || s.ID != id })
}

// Directory keeps backups as files. It should be on another machine's disk.
type Directory string

func (d Directory) String() string { return string(d) }

// SharesDisk tells whether the folder, or the one above if it is not there yet, is in the file system
// of another folder.
func (d Directory) SharesDisk(other string) (bool, error) {
	own, err := os.Stat(string(d))
	if errors.Is(err, os.ErrNotExist) {
		own, err = os.Stat(filepath.Dir(string(d)))
	}
	of, otherErr := os.Stat(other)
	if err := errors.Join(err, otherErr); err != nil {
		return false, err
	}
	return own.Sys().(*syscall.Stat_t).Dev == of.Sys().(*syscall.Stat_t).Dev, nil
}

// Create makes the folder if it is missing, but not those above it: they are a mount that is not
// there.
func (d Directory) Create(_ context.Context, name string) (Upload, error) {
	if err := os.Mkdir(string(d), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("destination of backups: %w", err)
	}
	if err := d.removeLeftovers(); err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(filepath.Join(string(d), name))
	if err != nil {
		return nil, fmt.Errorf("destination of backups: %w", err)
	}
	return fileUpload{f}, nil
}

// removeLeftovers of backups that were cut off. One that another regiond writes just now is younger.
func (d Directory) removeLeftovers() error {
	left, err := filepath.Glob(filepath.Join(string(d), atomicfile.Temporary("*"+nameSuffix)))
	if err != nil {
		return err
	}
	for _, f := range left {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > leftoverAge {
			if err := os.Remove(f); err != nil {
				return fmt.Errorf("remove what a backup that was cut off left: %w", err)
			}
		}
	}
	return nil
}

// Open a backup in the folder.
func (d Directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(d), name))
}

// List the backups in the folder.
func (d Directory) List(context.Context) ([]Stored, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("destination of backups: %w", err)
	}
	var all []Stored
	for _, e := range entries {
		s, ok := ParseName(e.Name())
		info, err := e.Info()
		if !ok || err != nil || !info.Mode().IsRegular() { // removed meanwhile
			continue
		}
		s.Size = info.Size()
		all = append(all, s)
	}
	return newestFirst(all), nil
}

// Remove a backup.
func (d Directory) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}

type fileUpload struct{ *atomicfile.File }

func (f fileUpload) Commit() error { return f.File.Commit(0o600) }
