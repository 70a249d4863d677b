package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"

	"regiond.dev/regiond/machine/atomicfile"
)

// Restore is the mark of a data directory that a backup is being restored to. It is there from
// before the first entry to after the last one: while it is, the directory is not whole, nothing
// runs on it, and everything in it may be removed and restored again.
type Restore struct {
	Owner
	// Backup that is being restored, and when what is in it was read.
	Backup string    `json:"backup"`
	Of     time.Time `json:"of"`
}

// ReadRestore reads the mark of a restore that has not ended.
func ReadRestore(dataDir string) (r Restore, restoring bool, err error) {
	b, err := os.ReadFile(Restoring.In(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && (r.UID == uuid.Nil || r.Region == "") {
		err = fmt.Errorf("%s: region and uid are required; another program's file of this name is to be moved away", Restoring.In(dataDir))
	}
	if err != nil {
		return r, false, fmt.Errorf("mark of a restore: %w", err)
	}
	return r, true, nil
}

// BeginRestore marks a data directory.
func BeginRestore(dataDir string, r Restore) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(Restoring.In(dataDir), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("mark the data directory as being restored: %w", err)
	}
	return nil
}

// EndRestore takes the mark away: the data directory is a region's like any other.
func EndRestore(dataDir string) error {
	if err := os.Remove(Restoring.In(dataDir)); err != nil {
		return fmt.Errorf("end of the restore: %w", err)
	}
	return atomicfile.SyncFolder(dataDir)
}

// CheckRestored refuses a data directory that is not whole.
func CheckRestored(dataDir string) error {
	r, restoring, err := ReadRestore(dataDir)
	if err != nil || !restoring {
		return err
	}
	return fmt.Errorf("the restore of %s into %s has not ended, so the data directory is not whole: run the same `regiond backup restore` again, "+
		"or `regiond reset` to remove what there is", r.Backup, dataDir)
}
