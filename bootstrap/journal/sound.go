package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// ErrDamaged is wrapped by errors about a journal whose content is not a valid database.
var ErrDamaged = errors.New("the file is damaged")

// openSound opens a journal for reading after checking every page. bbolt trusts what it maps into
// memory: on pages that a power cut left unwritten it panics, and a file that ends before its last
// page kills the process (SIGBUS).
func openSound(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: openTimeout})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("journal %s is held open by another process; stop it (fuser %s names it)", path, path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err == nil {
		if err = sound(db, path); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w: %w; move it away: it is recreated, and only DHCP leases and the record of this host's "+
			"address are lost", path, ErrDamaged, err)
	}
	return db, nil
}

func sound(db *bbolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes and needs %d", info.Size(), tx.Size())
		}
		var first error
		for err := range tx.Check() { // drain it, or its goroutine would leak
			if first == nil {
				first = err
			}
		}
		return first
	})
}
