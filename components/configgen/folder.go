package configgen

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Folder is where the files of a target are written. Only their owner can read them, because they
// may contain secrets.
type Folder struct {
	root *os.Root
	// earlier are the files that earlier renders wrote, now those that this one has written.
	earlier, now map[string]bool
}

// writtenFile lists the files that renders have written into a folder, one name per line. A name is
// recorded before its file is written, so that the next render knows all files of an interrupted
// one.
const writtenFile = ".rendered"

// OpenFolder creates the folder if it does not exist. It refuses a folder with files that no render
// wrote, because it may serve another purpose.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{root: root, earlier: map[string]bool{}, now: map[string]bool{}}
	if err := f.open(dir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

func (f *Folder) open(dir string) error {
	list, err := f.root.ReadFile(writtenFile)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s holds files that were not rendered by regiond, e.g. %s; name an empty folder", dir, entries[0].Name())
		}
		return f.root.WriteFile(writtenFile, nil, 0o600)
	}
	if err != nil {
		return err
	}
	for name := range strings.Lines(string(list)) {
		f.earlier[strings.TrimSuffix(name, "\n")] = true
	}
	return nil
}

// Write replaces a file atomically: a reader sees either the old or the new content.
func (f *Folder) Write(o Output) error {
	if err := f.note(o.Name); err != nil {
		return err
	}
	if err := f.root.MkdirAll(path.Dir(o.Name), 0o700); err != nil {
		return err
	}
	part := path.Join(path.Dir(o.Name), "."+path.Base(o.Name)+".part")
	// A partial file of an interrupted run may be readable by others.
	if err := f.root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.root.WriteFile(part, o.Content, 0o600); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", o.Name, err), f.root.Remove(part))
	}
	return f.root.Rename(part, o.Name)
}

func (f *Folder) note(name string) error {
	f.now[name] = true
	if f.earlier[name] {
		return nil
	}
	list, err := f.root.OpenFile(writtenFile, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(list, name)
	return errors.Join(err, list.Close())
}

// Clean removes the files that an earlier render wrote and this one did not, and folders that
// become empty.
func (f *Folder) Clean() error {
	for name := range f.earlier {
		if f.now[name] {
			continue
		}
		if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if f.root.Remove(dir) != nil {
				break // it is not empty
			}
		}
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.now)) {
		list.WriteString(name + "\n")
	}
	return f.root.WriteFile(writtenFile, []byte(list.String()), 0o600)
}

// Close releases the folder.
func (f *Folder) Close() error { return f.root.Close() }
