package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that another process holds is tried.
const lockPoll = 200 * time.Millisecond

// LockFile takes a folder for writing by the file path in it (flock(2): it is free again when its holder ends, however it
// ends). waiting is called once if it is taken; it may be nil.
func LockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("images folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("images folder: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			// Closing the file gives the lock up; there is nothing to lose in it.
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another build to end, which holds %s: %w", path, context.Cause(ctx)), f.Close())
		case <-ticker.C:
		}
	}
}

// SyncFS writes out the file system that path is on.
func SyncFS(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))), f.Close())
}
