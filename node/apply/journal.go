package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/configuration"
)

// Files of the journal, on the data partition: they outlive the root file system.
const (
	appliedFile = "applied.json" // what the host holds to
	pendingFile = "pending.json" // what it is on its way to
	refusedFile = "refused.json" // what has cut it off, and is not tried again
)

// formerFile was kept by earlier agents: what the host held to before. Secrets that were rotated
// since are in it, and nothing reads it.
const formerFile = "previous.json"

// applied is a configuration that a host holds to.
type applied struct {
	Digest string    `json:"digest"`
	Time   time.Time `json:"time"`
	// Content as it came: its digest is taken over its bytes.
	Content string `json:"content"`

	configuration.Configuration `json:"-"`
}

// pending is a configuration that is being applied.
type pending struct {
	applied
	// Owned are the files and services that may be there from this and earlier configurations.
	Owned Names `json:"owned"`
	// Network: it can cut the host off, and was not confirmed yet.
	Network bool `json:"network,omitempty"`
	// Back is what is put back when it did: the configuration before, and what was in the place of new files.
	Back configuration.Configuration `json:"back"`
}

// refused is a configuration that was put back.
type refused struct {
	Digest string    `json:"digest"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
	// Interrupted counts how often the host went down while it was tried. Final ends the trying.
	Interrupted int  `json:"interrupted,omitempty"`
	Final       bool `json:"final"`
}

// journal is on disk before what it speaks of is done.
type journal struct {
	log     *slog.Logger
	dir     string
	applied *applied
	pending *pending
	refused *refused
}

// load reads the journal. A file that can't be read is put aside: the control plane has all that is in it.
func (j *journal) load() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(j.dir, formerFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journal: %w", err)
	}
	a, p, r := &applied{}, &pending{}, &refused{}
	decode := func(c *applied) func() error { return c.decode }
	for _, f := range []struct {
		name  string
		into  any
		check func() error
		take  func()
	}{
		{appliedFile, a, decode(a), func() { j.applied = a }},
		{pendingFile, p, decode(&p.applied), func() { j.pending = p }},
		{refusedFile, r, func() error { return nil }, func() { j.refused = r }},
	} {
		ok, err := j.read(f.name, f.into)
		if ok && err == nil {
			err = f.check()
		}
		if err != nil {
			j.log.Error("a file of the journal is put aside", slog.String("file", f.name), slog.Any("error", err))
			path := filepath.Join(j.dir, f.name)
			if err := os.Rename(path, path+".unreadable"); err != nil {
				return err
			}
			continue
		}
		if ok {
			f.take()
		}
	}
	return nil
}

func (a *applied) decode() error {
	c, digest, err := configuration.Decode([]byte(a.Content))
	if err == nil && digest != a.Digest {
		err = fmt.Errorf("content has the digest %s, not %s", digest, a.Digest)
	}
	a.Configuration = c
	return err
}

func (j *journal) read(name string, into any) (bool, error) {
	b, err := os.ReadFile(filepath.Join(j.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return false, fmt.Errorf("journal %s: %w", filepath.Join(j.dir, name), err)
	}
	return true, nil
}

func (j *journal) write(name string, value any) error {
	b, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(j.dir, name), b, 0o600); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *journal) begin(p *pending) error {
	if err := j.write(pendingFile, p); err != nil {
		return err
	}
	j.pending = p
	return nil
}

// commit makes what is pending the applied configuration.
func (j *journal) commit(step func(string) error) error {
	a := j.pending.applied
	if err := j.write(appliedFile, &a); err != nil {
		return err
	}
	j.applied = &a
	if err := step("applied kept"); err != nil {
		return err
	}
	return j.drop()
}

// drop forgets what is pending.
func (j *journal) drop() error {
	if err := os.Remove(filepath.Join(j.dir, pendingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journal: %w", err)
	}
	j.pending = nil
	return syncDir(j.dir)
}

func (j *journal) refuse(r refused) error {
	if err := j.write(refusedFile, r); err != nil {
		return err
	}
	j.refused = &r
	return nil
}
