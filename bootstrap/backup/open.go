package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Reader reads a backup once, from its beginning to its end.
type Reader struct {
	Manifest Manifest

	sealed  io.Reader
	packed  *zstd.Decoder
	archive *tar.Reader
}

// Open begins to read a backup with the private keys of recipients. The manifest can be believed as
// far as encryption goes; that everything is there is known at the end of Each.
func Open(r io.Reader, identities ...age.Identity) (*Reader, error) {
	sealed, err := age.Decrypt(r, identities...)
	var other *age.NoIdentityMatchError
	switch {
	case errors.As(err, &other):
		return nil, fmt.Errorf("%w than those in the given file; the key is needed that belongs to one of its recipients", ErrWrongKey)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b := &Reader{sealed: sealed}
	if b.packed, err = zstd.NewReader(sealed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.archive = tar.NewReader(b.packed)
	first, err := b.archive.Next()
	if err == nil && first.Name != manifestName {
		err = fmt.Errorf("it begins with %q", first.Name)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if b.Manifest, err = readManifest(b.archive); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends reading.
func (b *Reader) Close() { b.packed.Close() }

// Each calls f with every entry in order. The content that f reads is proved when Each returns nil:
// each entry has its size and digest, none is missing, and the file ends where it was made to. f
// need not read all of it.
func (b *Reader) Each(ctx context.Context, f func(e Entry, content io.Reader) error) error {
	for _, e := range b.Manifest.Entries {
		header, err := b.archive.Next()
		if err == nil && (header.Name != e.Name || header.Size != e.Size || header.Typeflag != tar.TypeReg) {
			err = fmt.Errorf("%q, %d bytes, is in the place of it", header.Name, header.Size)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, e.Name, err)
		}
		content := &checking{ctx: ctx, r: b.archive, hash: sha256.New()}
		err = f(e, content)
		if err == nil || content.err != nil {
			err = errors.Join(err, content.rest())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if got := hex.EncodeToString(content.hash.Sum(nil)); got != e.SHA256 {
			return fmt.Errorf("%w: %s: got SHA-256 %s, want %s", ErrDamaged, e.Name, got, e.SHA256)
		}
	}
	if extra, err := b.archive.Next(); err == nil {
		return fmt.Errorf("%w: %q is not in its manifest", ErrDamaged, extra.Name)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, r := range []io.Reader{b.packed, b.sealed} {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return fmt.Errorf("%w: at its end: %w", ErrDamaged, err)
		}
	}
	return nil
}

// Verify reads a whole backup and returns its manifest. peek is as in Each; it may be nil.
func Verify(ctx context.Context, r io.Reader, peek func(e Entry, content io.Reader) error, identities ...age.Identity) (Manifest, error) {
	if peek == nil {
		peek = func(Entry, io.Reader) error { return nil }
	}
	b, err := Open(r, identities...)
	if err != nil {
		return Manifest{}, err
	}
	defer b.Close()
	return b.Manifest, b.Each(ctx, peek)
}

// checking computes the digest of what is read, and remembers why it could not be read.
type checking struct {
	ctx  context.Context
	r    io.Reader
	hash hash.Hash
	err  error
}

func (c *checking) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.hash.Write(p[:n]) // does not fail (hash.Hash)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = fmt.Errorf("%w: %w", ErrDamaged, err)
		err = c.err
	}
	return n, err
}

// rest reads what was left.
func (c *checking) rest() error {
	if c.err != nil {
		return c.err
	}
	_, err := io.Copy(io.Discard, c)
	return err
}

// summing counts and digests what is written.
type summing struct {
	w    io.Writer
	hash hash.Hash
	size int64
}

func (s *summing) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.hash.Write(p[:n]) // does not fail (hash.Hash)
	s.size += int64(n)
	return n, err
}
