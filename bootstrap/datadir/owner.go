package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/uuid"

	"regiond.dev/regiond/machine/atomicfile"
)

// Owner is the mark of a region's data directory.
type Owner struct {
	// Region is metadata.name of the Region.
	Region string `json:"region"`
	// UID of the region. Names of the control plane's objects on the host contain its beginning, see
	// ID.
	UID uuid.UUID `json:"uid"`
}

// ID returns the first eight hex digits of the UID, which distinguish the bridges, tables and
// cgroups of regions on one host.
func (o Owner) ID() string { return o.UID.String()[:8] }

// ReadOwner reads the mark of a data directory. Without a mark the error is fs.ErrNotExist: nothing
// has been started there, or only a version that wrote no mark.
func ReadOwner(dataDir string) (Owner, error) {
	path := Marker.In(dataDir)
	b, err := os.ReadFile(path)
	if err != nil {
		return Owner{}, err
	}
	var o Owner
	err = json.Unmarshal(b, &o)
	if err == nil && (o.UID == uuid.Nil || o.Region == "") {
		err = errors.New("region and uid are required")
	}
	if err != nil {
		return Owner{}, fmt.Errorf("%s: %w; move the file away, and the next start recreates it", path, err)
	}
	return o, nil
}

// Mark marks a data directory, unless it already has a mark, and returns its owner.
func Mark(dataDir string, o Owner) (Owner, error) {
	was, err := ReadOwner(dataDir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return was, err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return Owner{}, err
	}
	if err := atomicfile.Write(Marker.In(dataDir), append(b, '\n'), 0o644); err != nil {
		return Owner{}, fmt.Errorf("mark the data directory: %w", err)
	}
	return o, nil
}

// lockFile is the name of the lock in the folder Run. It is made before anything else.
const lockFile = "regiond.lock"

// IsOurs reports whether a directory is a data directory of regiond. Names like bin, log and run
// are in many directories, so it requires unique evidence: the mark; the mark of a restore that has
// not ended; the record of an installation that was never started; or, for a start that failed
// before the mark and for versions without marks, the lock together with the journal or the region's
// authority. An interrupted reset of those versions leaves only the lock.
func IsOurs(dataDir string) (bool, error) {
	if _, err := ReadOwner(dataDir); err == nil {
		return true, nil
	}
	if _, restoring, err := ReadRestore(dataDir); err == nil && restoring {
		return true, nil
	}
	if installed, err := isInstallRecord(InstallRecord.In(dataDir)); installed || err != nil {
		return installed, err
	}
	if !isFile(Run.In(dataDir, lockFile)) {
		return false, nil
	}
	if isFile(Journal.In(dataDir)) || isFile(PKI.In(dataDir, "ca.crt")) {
		return true, nil
	}
	found, err := os.ReadDir(dataDir)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if e, known := Find(f.Name()); known && e.Name != Run {
			return false, nil
		}
	}
	return true, nil
}

func isInstallRecord(path string) (bool, error) {
	if !isFile(path) {
		return false, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	var record struct {
		Files map[string]string `json:"files"`
	}
	return json.Unmarshal(b, &record) == nil && len(record.Files) > 0, nil
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
