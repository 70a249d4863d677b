package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"regiond.dev/regiond/bootstrap/datadir"
)

// Restorer puts back what a Source of the same name has handed in.
type Restorer interface {
	Name() string
	// Restore one entry, by the name that it was handed in by, below the data directory. Everything
	// that it and Finish do there MUST be in entries of the data directory's table: when the restore
	// was cut off, those are removed and it begins again. What they do elsewhere MUST bear repetition.
	// Unknown names MUST be refused.
	Restore(ctx context.Context, name string, content io.Reader) error
	// Finish is called once, when all entries of the backup were restored and their digests proved.
	Finish(ctx context.Context) error
}

// RestoreConfig says what to restore, and where.
type RestoreConfig struct {
	// Open the backup, from its beginning.
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Name of the backup, for messages and the mark.
	Name       string
	Identities []age.Identity
	DataDir    string
	// Restorers by which the entries go to their places.
	Restorers []Restorer
	// Progress is told what is restored, in words for people. May be nil.
	Progress func(text string)
	// Cut is called before each step with its name; an error ends the restore as if it was killed. For
	// tests. May be nil.
	Cut func(step string) error
}

// Check a data directory: refuse one that is not empty, unless all it has is a restore that was cut
// off. Logs and locks don't count.
func (c RestoreConfig) Check() error {
	if _, restoring, err := datadir.ReadRestore(c.DataDir); restoring || err != nil {
		return err
	}
	entries, err := os.ReadDir(c.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var names []string
	for _, e := range entries {
		if of, known := datadir.Find(e.Name()); known && (of.Name == datadir.Run || of.Name == datadir.Log) || e.Name() == "lost+found" {
			continue
		}
		names = append(names, e.Name())
	}
	if len(names) == 0 {
		return nil
	}
	whose := "it is not empty"
	if o, err := datadir.ReadOwner(c.DataDir); err == nil {
		whose = fmt.Sprintf("it holds the region %s, uid %s", o.Region, o.UID)
	}
	return fmt.Errorf("%s: %s: %s. A backup is restored to an empty host only: run `regiond reset` first if nothing there is needed, or restore on another host",
		c.DataDir, whose, strings.Join(names, ", "))
}

// Known refuses entries that nobody restores.
func (c RestoreConfig) Known(m Manifest) error {
	for _, e := range m.Entries {
		if c.restorer(e) == nil {
			return fmt.Errorf("%s: %s: this regiond can't restore it; use regiond %s, which made the backup, or a later one", c.Name, e.Name, m.Version)
		}
	}
	return nil
}

func (c RestoreConfig) restorer(e Entry) Restorer {
	source, _, _ := strings.Cut(e.Name, "/")
	i := slices.IndexFunc(c.Restorers, func(r Restorer) bool { return r.Name() == source })
	if i < 0 {
		return nil
	}
	return c.Restorers[i]
}

// Restore puts everything of a backup, whose manifest Verify has returned, into the data directory,
// on which nothing runs: the caller holds its lock. After an error or a kill it is called again and begins again; until it has
// ended well regiond refuses to start there.
func Restore(ctx context.Context, c RestoreConfig, want Manifest) (err error) {
	if err := errors.Join(c.Check(), c.Known(want)); err != nil {
		return err
	}
	if err := c.step("mark"); err != nil {
		return err
	}
	owner := datadir.Owner{Region: want.Region, UID: want.UID}
	if err := datadir.BeginRestore(c.DataDir, datadir.Restore{Owner: owner, Backup: c.Name, Of: want.Time}); err != nil {
		return err
	}
	if err := c.step("clear"); err != nil {
		return err
	}
	if err := c.clear(); err != nil {
		return err
	}
	if err := c.entries(ctx, want); err != nil {
		return err
	}
	for _, r := range c.Restorers {
		if err := c.step("finish " + r.Name()); err != nil {
			return err
		}
		if err := r.Finish(ctx); err != nil {
			return fmt.Errorf("restore %s: %w", r.Name(), err)
		}
	}
	if err := c.step("owner"); err != nil {
		return err
	}
	if got, err := datadir.Mark(c.DataDir, owner); err != nil || got != owner {
		return fmt.Errorf("mark of the region: got %+v, want %+v: %w", got, owner, err)
	}
	if err := syncAll(c.DataDir); err != nil {
		return err
	}
	if err := c.step("end"); err != nil {
		return err
	}
	return datadir.EndRestore(c.DataDir)
}

func (c RestoreConfig) step(name string) error {
	if c.Cut == nil {
		return nil
	}
	return c.Cut(name)
}

// clear removes what a restore that was cut off has left.
func (c RestoreConfig) clear() error {
	found, err := os.ReadDir(c.DataDir)
	if err != nil {
		return err
	}
	for _, f := range found {
		e, known := datadir.Find(f.Name())
		if !known || slices.Contains([]datadir.Name{datadir.Run, datadir.Log, datadir.Restoring}, e.Name) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.DataDir, f.Name())); err != nil {
			return fmt.Errorf("remove what a restore that was cut off left: %w", err)
		}
	}
	return nil
}

func (c RestoreConfig) entries(ctx context.Context, want Manifest) (err error) {
	r, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := Open(r, c.Identities...)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	defer b.Close()
	if !b.Manifest.same(want) {
		return fmt.Errorf("%s is not the backup that was checked: it was replaced meanwhile", c.Name)
	}
	last := ""
	return b.Each(ctx, func(e Entry, content io.Reader) error {
		if err := c.step("entry " + e.Name); err != nil {
			return err
		}
		to := c.restorer(e)
		if to.Name() != last && c.Progress != nil {
			c.Progress("restoring " + to.Name())
		}
		last = to.Name()
		return to.Restore(ctx, strings.TrimPrefix(e.Name, to.Name()+"/"), content)
	})
}

// same manifests have the same entries with the same digests.
func (m Manifest) same(other Manifest) bool {
	return m.UID == other.UID && m.Time.Equal(other.Time) && slices.Equal(m.Entries, other.Entries)
}
