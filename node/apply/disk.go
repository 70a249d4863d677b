package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/account"
)

// disk is the host's file system below a root.
type disk struct {
	root string
	// seen holds what was read, so that an idle host reads no files.
	seen map[string]seen
}

type seen struct {
	stamp stamp
	file  configuration.File
}

// stamp changes with everything that is done to a file (the change time by itself does).
type stamp struct {
	device, inode uint64
	size          int64
	mode          fs.FileMode
	uid, gid      uint32
	changed       time.Time
}

func (d *disk) path(p string) string { return filepath.Join(d.root, p) }

// read returns the files that are at the given paths.
func (d *disk) read(accounts *account.Accounts, paths []string) (map[string]configuration.File, error) {
	found := map[string]configuration.File{}
	for _, p := range paths {
		st, err := d.stamp(p)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			delete(d.seen, p)
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, ok := d.seen[p]; ok && s.stamp == st {
			found[p] = s.file
			continue
		}
		f := configuration.File{Path: p}
		if st.mode.IsRegular() {
			content, err := os.ReadFile(d.path(p))
			if err != nil {
				return nil, err
			}
			f = configuration.File{Path: p, Mode: fmt.Sprintf("%04o", st.mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)),
				Owner: accounts.UserName(st.uid), Group: accounts.GroupName(st.gid), Content: string(content)}
		}
		found[p] = f
		// One that changed a moment ago may change again without its time showing it: the kernel's clock for files ticks slowly.
		if time.Since(st.changed) > time.Second {
			d.seen[p] = seen{st, f}
		}
	}
	return found, nil
}

func (d *disk) stamp(p string) (stamp, error) {
	st, err := os.Lstat(d.path(p))
	if err != nil {
		return stamp{}, err
	}
	sys := st.Sys().(*syscall.Stat_t) // on Linux it always is
	return stamp{sys.Dev, sys.Ino, st.Size(), st.Mode(), sys.Uid, sys.Gid, time.Unix(sys.Ctim.Sec, sys.Ctim.Nsec)}, nil
}

// changedBefore says whether all files were as they are now at a time.
func (d *disk) changedBefore(paths []string, t time.Time) bool {
	for _, p := range paths {
		st, err := d.stamp(p)
		if err != nil || !st.changed.Before(t) {
			return false
		}
	}
	return true
}

func modeText(f configuration.File) string {
	m, err := f.FileMode()
	if err != nil {
		return f.Mode // Check has refused it
	}
	return fmt.Sprintf("%04o", m)
}

// aside is where a file is written before it gets its name. Programs that read whole folders pass it over for its dot.
func aside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".regiond-new")
}

// stage writes a file aside, complete and durable.
func (d *disk) stage(accounts *account.Accounts, f configuration.File) (err error) {
	path := d.path(f.Path)
	if st, err := os.Lstat(path); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a directory; remove it", f.Path)
	}
	user, err := accounts.User(f.Owner)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	gid, err := accounts.Group(f.Group)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	mode, err := f.FileMode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := aside(path)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", f.Path, err), os.Remove(temporary))
		}
	}()
	if _, err = out.WriteString(f.Content); err != nil {
		return err
	}
	if err = out.Chown(int(user.UID), int(gid)); err != nil {
		return err
	}
	if err = out.Chmod(mode); err != nil { // after chown, which clears bits
		return err
	}
	return out.Sync()
}

// place gives a staged file its name.
func (d *disk) place(p string) error {
	path := d.path(p)
	if err := os.Rename(aside(path), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func (d *disk) remove(p string) error {
	path := d.path(p)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// unstage removes what was written aside and is not wanted any more.
func (d *disk) unstage(paths []string) {
	for _, p := range paths {
		_ = os.Remove(aside(d.path(p))) // mostly there is none
	}
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
