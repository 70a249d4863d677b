package openstack

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// ArchiveFormat is the version of the format that Archive writes. Open reads this version and all
// earlier ones.
//
// Version 1 is a ZIP file with the templates below templates/ and the base of the manifests below
// base/.
const ArchiveFormat = 1

// maxArchive bounds an archive and maxUnpacked its content, in bytes: it is stored as one object,
// and etcd accepts up to 1.5 MiB.
const (
	maxArchive  = 1 << 20
	maxUnpacked = 16 << 20
)

// Folders of an archive.
const (
	archiveTemplates = "templates"
	archiveBase      = "base"
)

// Digest returns the digest of the templates and the base: SHA-256 over the names and contents of
// their files, in hex. It does not depend on how an archive is packed.
func (c *Composer) Digest() string { return c.digest }

// Archive packs the templates and the base, so that a regiond with different ones can render from
// these.
func (c *Composer) Archive() ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	err := c.files(func(name string, content []byte) error {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("archive of templates: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive of templates: %w", err)
	}
	if b.Len() > maxArchive {
		return nil, fmt.Errorf("archive of templates: it has %d bytes, and an object holds at most %d", b.Len(), maxArchive)
	}
	return b.Bytes(), nil
}

// Open reads an archive that Archive wrote, and refuses one with a different digest.
func Open(archive []byte, digest string) (*Composer, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("archive of templates %s: %w", digest, err)
	}
	var size uint64
	for _, f := range r.File {
		if size += f.UncompressedSize64; size > maxUnpacked {
			return nil, fmt.Errorf("archive of templates %s: it unpacks to more than %d bytes", digest, maxUnpacked)
		}
	}
	templates, err := fs.Sub(r, archiveTemplates)
	if err != nil {
		return nil, err
	}
	base, err := fs.Sub(r, archiveBase)
	if err != nil {
		return nil, err
	}
	c, err := New(templates, base)
	if err != nil {
		return nil, fmt.Errorf("archive of templates %s: %w", digest, err)
	}
	if c.digest != digest {
		return nil, fmt.Errorf("archive of templates %s: its content has the digest %s, so it is damaged or was changed; "+
			"regiond apply stores the templates of this regiond", digest, c.digest)
	}
	return c, nil
}

// files calls do for every file in the order of names, starting with the files of the base.
func (c *Composer) files(do func(name string, content []byte) error) error {
	for _, part := range []struct {
		dir  string
		fsys fs.FS
	}{{archiveBase, c.base}, {archiveTemplates, c.templates}} {
		err := fs.WalkDir(part.fsys, ".", func(name string, d fs.DirEntry, err error) error {
			// Go files belong to the package that embeds the folder.
			if err != nil || d.IsDir() || strings.HasSuffix(name, ".go") {
				return err
			}
			content, err := fs.ReadFile(part.fsys, name)
			if err != nil {
				return err
			}
			return do(part.dir+"/"+name, content)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Composer) sum() (string, error) {
	h := sha256.New()
	err := c.files(func(name string, content []byte) error {
		fmt.Fprintf(h, "%q %d\n%s\n", name, len(content), content) // writing to a hash never fails (hash.Hash)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
