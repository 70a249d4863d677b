package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"regiond.dev/regiond/bootstrap/datadir"
)

// Source is what a room has to back up.
type Source interface {
	// Name of the source, with which the names of its entries begin. It MUST stay the same in later
	// versions.
	Name() string
	// Backup hands in each entry by its name. What it hands in MUST be consistent, and nobody MAY be
	// kept from working meanwhile. Content that is an *os.File is not copied but read twice, up to the
	// size that it has now, and closed.
	Backup(ctx context.Context, add func(name string, content io.Reader) error) error
}

// Missing are the entries of the data directory that a backup needs and no source has, by the table
// of the data directory: the sources of its entries have their names. The mark of the region is
// made again of what the manifest says.
func Missing(sources []Source) []datadir.Name {
	var out []datadir.Name
	for _, e := range datadir.Entries() {
		there := slices.ContainsFunc(sources, func(s Source) bool { return s.Name() == string(e.Name) })
		if e.Backup && e.Name != datadir.Marker && !there {
			out = append(out, e.Name)
		}
	}
	return out
}

// CreateConfig says what to back up, for whom, and where to.
type CreateConfig struct {
	// Manifest without its entries and format.
	Manifest Manifest
	// Sources in the order in which they are read. What one refers to in another comes before it.
	Sources []Source
	// Recipients may read the backup.
	Recipients []age.Recipient
	// Staging is a folder of its own for parts, mode 0700. Whatever is in it is removed.
	Staging string
	Store   Store
	// Progress is told what is read, in words for people. May be nil.
	Progress func(text string)
}

// Result is a backup that was made.
type Result struct {
	Stored
	Manifest Manifest `json:"manifest"`
	// SHA256 of the file, in hex.
	SHA256 string `json:"sha256"`
}

// Create makes a backup. It is in the store when this returns without an error, and as a whole.
func Create(ctx context.Context, c CreateConfig) (result *Result, err error) {
	if len(c.Recipients) == 0 {
		return nil, errors.New("a backup needs recipients: public keys of those who may restore it")
	}
	if missing := Missing(c.Sources); len(missing) > 0 {
		return nil, fmt.Errorf("nobody backs up %q of the data directory", missing)
	}
	if err := emptyFolder(c.Staging); err != nil {
		return nil, err
	}
	s := &stage{dir: c.Staging}
	defer func() { err = errors.Join(err, s.close(), emptyFolder(c.Staging)) }()
	for _, source := range c.Sources {
		if c.Progress != nil {
			c.Progress("reading " + source.Name())
		}
		err := source.Backup(ctx, func(name string, content io.Reader) error {
			return s.add(ctx, source.Name()+"/"+name, content)
		})
		if err != nil {
			return nil, fmt.Errorf("back up %s: %w", source.Name(), err)
		}
	}
	m := c.Manifest
	m.Format, m.Time, m.Entries = Format, m.Time.UTC(), s.entries()
	if err := m.check(); err != nil {
		return nil, err
	}
	if c.Progress != nil {
		c.Progress("writing to " + c.Store.String())
	}
	stored := Stored{Name: FileName(m), Region: m.Region, ID: idOf(m.UID), Time: m.Time}
	upload, err := c.Store.Create(ctx, stored.Name)
	if err != nil {
		return nil, err
	}
	sum := &summing{w: upload, hash: sha256.New()}
	if err := s.write(ctx, sum, m, c.Recipients); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", stored.Name, err), upload.Discard())
	}
	if err := upload.Commit(); err != nil {
		return nil, fmt.Errorf("write %s: %w", stored.Name, err)
	}
	stored.Size = sum.size
	return &Result{Stored: stored, Manifest: m, SHA256: hex.EncodeToString(sum.hash.Sum(nil))}, nil
}

// emptyFolder makes a folder that only its owner can read, or empties it.
func emptyFolder(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("folder for parts of a backup: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("folder for parts of a backup: %w", err)
	}
	return nil
}

// stage holds what sources have handed in until the digests of all are known: the manifest comes
// first in the archive.
type stage struct {
	dir    string
	staged []staged
}

type staged struct {
	entry Entry
	file  *os.File
}

func (s *stage) add(ctx context.Context, name string, content io.Reader) error {
	entry := Entry{Name: name}
	f, isFile := content.(*os.File)
	if isFile {
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a regular file")
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
		}
		content = io.NewSectionReader(f, 0, info.Size())
	} else {
		var err error
		if f, err = os.OpenFile(filepath.Join(s.dir, strconv.Itoa(len(s.staged))), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	s.staged = append(s.staged, staged{file: f})
	hash := sha256.New()
	var w io.Writer = hash
	if !isFile {
		w = io.MultiWriter(f, hash)
	}
	size, err := io.Copy(w, reading{ctx, content})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	entry.Size, entry.SHA256 = size, hex.EncodeToString(hash.Sum(nil))
	s.staged[len(s.staged)-1].entry = entry
	return nil
}

func (s *stage) entries() []Entry {
	out := make([]Entry, 0, len(s.staged))
	for _, x := range s.staged {
		out = append(out, x.entry)
	}
	return out
}

func (s *stage) close() error {
	var all error
	for _, x := range s.staged {
		all = errors.Join(all, x.file.Close())
	}
	return all
}

// write the archive.
func (s *stage) write(ctx context.Context, w io.Writer, m Manifest, recipients []age.Recipient) error {
	sealed, err := age.Encrypt(w, recipients...)
	if err != nil {
		return err
	}
	packed, err := zstd.NewWriter(sealed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	manifest, err := json.Marshal(m)
	if err != nil {
		return err
	}
	header := func(name string, size int64) error {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: m.Time, Format: tar.FormatPAX})
	}
	if err := header(manifestName, int64(len(manifest))); err != nil {
		return err
	}
	if _, err := archive.Write(manifest); err != nil {
		return err
	}
	for _, x := range s.staged {
		if err := header(x.entry.Name, x.entry.Size); err != nil {
			return err
		}
		hash := sha256.New()
		n, err := io.Copy(io.MultiWriter(archive, hash), reading{ctx, io.NewSectionReader(x.file, 0, x.entry.Size)})
		if err != nil {
			return fmt.Errorf("%s: %w", x.entry.Name, err)
		}
		if got := hex.EncodeToString(hash.Sum(nil)); n != x.entry.Size || got != x.entry.SHA256 {
			return fmt.Errorf("%s changed while it was read; make the backup again", x.entry.Name)
		}
	}
	for _, c := range []io.Closer{archive, packed, sealed} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// reading ends with a context.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
