// Package journal stores what the seed host must know while the Kubernetes API is down: which steps
// of the bootstrap have begun, and by which address the cluster knows this host.
//
// The journal never replaces observation. Every step observes and repairs each time it runs; the
// journal records what has begun, for people, messages and `regiond reset`. The only fact that
// decides anything is the identity that the control plane was created with, because etcd would
// refuse to start or, worse, form a second cluster if the node's address changed (see Identity).
//
// Other rooms use the same bbolt file (DHCP leases, BMC capabilities), each with its own buckets.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Buckets of this package. Other users of the file must not use names with this prefix.
var (
	bucketSteps = []byte("bootstrap/steps")
	bucketNode  = []byte("bootstrap/node")
)

// openTimeout bounds the wait for bbolt's file lock. The data directory's own lock is already held,
// so a wait here means that something else holds the file open.
const openTimeout = 2 * time.Second

// Journal is an open journal.
type Journal struct {
	db  *bbolt.DB
	now func() time.Time
}

// Step is the last run of a step of the bootstrap.
type Step struct {
	// Name of the step, unique within the bootstrap.
	Name string `json:"name"`
	// Detail is what the step was about to change, e.g. a path.
	Detail string `json:"detail,omitempty"`
	// Begun is when the last run began. It is synced to disk before any effect.
	Begun time.Time `json:"begun"`
	// Ended is when it returned; zero while it runs, or if regiond died during it.
	Ended time.Time `json:"ended,omitzero"`
	// Error of the last run, empty if it succeeded.
	Error string `json:"error,omitempty"`
	// Runs counts the starts since the data directory was created.
	Runs int `json:"runs"`
}

// Interrupted reports whether the last run began and never returned.
func (s Step) Interrupted() bool { return s.Ended.IsZero() }

// Open opens or creates the journal.
func Open(path string, now func() time.Time) (*Journal, error) {
	// bbolt initializes a new file, and an empty one that a power cut may leave.
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		checked, err := openSound(path)
		if err != nil {
			return nil, err
		}
		if err := checked.Close(); err != nil {
			return nil, fmt.Errorf("journal %s: %w", path, err)
		}
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: openTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("journal %s is held open by another process; stop it (fuser %s names it)", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range [][]byte{bucketSteps, bucketNode} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal %s: create buckets: %w", path, err), db.Close())
	}
	return &Journal{db: db, now: now}, nil
}

// DB returns the store itself, for the other rooms' buckets.
func (j *Journal) DB() *bbolt.DB { return j.db }

// Copy writes the file as it is at this moment, with all rooms' buckets. Writers don't wait for it.
func (j *Journal) Copy(w io.Writer) error { return CopyOf(j.db, w) }

// CopyOf is Copy for those who were handed the store. The copy is made in memory first: while a
// transaction reads, bbolt holds up a writer that needs a larger file, and w may take its time.
func CopyOf(db *bbolt.DB, w io.Writer) error {
	var copied bytes.Buffer
	err := db.View(func(tx *bbolt.Tx) error {
		copied.Grow(int(tx.Size()))
		_, err := tx.WriteTo(&copied)
		return err
	})
	if err != nil {
		return err
	}
	_, err = copied.WriteTo(w)
	return err
}

// Close closes the file.
func (j *Journal) Close() error { return j.db.Close() }

// Begin records that a step is about to change something. It returns once the record is on disk.
func (j *Journal) Begin(name, detail string) error {
	return j.update(name, func(s *Step) {
		s.Name, s.Detail, s.Begun, s.Ended, s.Error = name, detail, j.now().UTC(), time.Time{}, ""
		s.Runs++
	})
}

// End records the result of a step that has begun.
func (j *Journal) End(name string, result error) error {
	return j.update(name, func(s *Step) {
		s.Ended = j.now().UTC()
		if result != nil {
			s.Error = result.Error()
		}
	})
}

func (j *Journal) update(name string, change func(*Step)) error {
	err := j.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketSteps)
		var s Step
		if v := b.Get([]byte(name)); v != nil {
			if err := json.Unmarshal(v, &s); err != nil {
				return err
			}
		}
		change(&s)
		v, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return b.Put([]byte(name), v)
	})
	if err != nil {
		return fmt.Errorf("journal: record step %q: %w", name, err)
	}
	return nil
}

// Steps returns all records in the order of their last start.
func (j *Journal) Steps() ([]Step, error) { return steps(j.db) }
