package datadir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Lock is the exclusive right to use a data directory. It is a POSIX record lock (fcntl(2)), not
// flock(2), because the kernel reports its holder reliably, unlike a file with a pid. Such a lock
// is lost when its process closes any descriptor of the file, so nothing else in this process opens
// it.
type Lock struct{ file *os.File }

func lockPath(dataDir string) string { return Run.In(dataDir, lockFile) }

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

// TakeLock makes this process the only user of a data directory.
func TakeLock(dataDir string) (*Lock, error) {
	path := lockPath(dataDir)
	if err := Run.Make(dataDir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		held := wholeFile()
		if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, held); err != nil {
			held.Pid = 0
		}
		return nil, errors.Join(fmt.Errorf("regiond is already running on %s, pid %d; `regiond status` shows it. "+
			"For a second region on this host, set another controlPlane.dataDir", dataDir, held.Pid), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &Lock{file: f}, nil
}

// Release releases the data directory.
func (l *Lock) Release() error { return l.file.Close() }

// LockOwner returns the pid of the regiond that uses a data directory, 0 if none does. The process
// that holds the lock must not call it.
func LockOwner(dataDir string) (int, error) {
	f, err := os.Open(lockPath(dataDir))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	held := wholeFile()
	err = errors.Join(unix.FcntlFlock(f.Fd(), unix.F_GETLK, held), f.Close())
	if err != nil {
		return 0, fmt.Errorf("lock %s: %w", lockPath(dataDir), err)
	}
	if held.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(held.Pid), nil
}
