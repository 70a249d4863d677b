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

// ArchiveFormat is the version of the format that Archive writes. Open reads this one and all before it.
//
// Version 1 is a ZIP file with the templates below templates/ and the base of the manifests below base/.
const ArchiveFormat = 1

// maxArchive bounds an archive, and what it unpacks to, in bytes: it is stored as one object, and etcd takes 1.5 MiB.
const (
	maxArchive  = 1 << 20
	maxUnpacked = 16 << 20
)

// Folders of an archive.
const (
	archiveTemplates = "templates"
	archiveBase      = "base"
)

// Digest of the templates and the base: SHA-256 over the names and contents of their files, in hex. It does not depend on how
// an archive is packed.
func (c *Composer) Digest() string { return c.digest }

// Archive packs the templates and the base, so that a regiond that has others can render from these.
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
		return nil, fmt.Errorf("archive of templates: it has %d bytes, more than the %d that an object holds", b.Len(), maxArchive)
	}
	return b.Bytes(), nil
}

// Open reads what Archive wrote, and refuses what does not have the digest.
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
		return nil, fmt.Errorf("archive of templates %s: its content has the digest %s: it was damaged or changed; "+
			"regiond apply stores the templates of this regiond", digest, c.digest)
	}
	return c, nil
}

// files calls do for every file in the order of the names, those of the base first.
func (c *Composer) files(do func(name string, content []byte) error) error {
	for _, part := range []struct {
		dir  string
		fsys fs.FS
	}{{archiveBase, c.base}, {archiveTemplates, c.templates}} {
		err := fs.WalkDir(part.fsys, ".", func(name string, d fs.DirEntry, err error) error {
			// Go files are those of the package that embeds the folder.
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
		fmt.Fprintf(h, "%q %d\n%s\n", name, len(content), content) // writing to a hash does not fail (hash.Hash)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
