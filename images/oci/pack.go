package oci

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// sourceDate (seconds since 1970, the day Debian 13 was released) is the time of every file that
// the build itself creates. Packages' files keep their times: compiled Python files are valid only
// while the times of their sources do not change.
const sourceDate = 1754697600

// Whiteouts of image layers (image-spec, layer.md).
const (
	whiteout       = ".wh."
	whiteoutOpaque = whiteout + whiteout + ".opq"
)

// maxAttribute is the longest extended attribute in bytes (xattr(7): the kernel's limit).
const maxAttribute = 1 << 16

// packer turns the upper folder of an overlay file system into a layer.
type packer struct {
	tar  *tar.Writer
	root string
	// below has the trees of the layers below.
	below []string
	// made is when the build began: files that are as new were created by it.
	made time.Time
	// dropped reports whether a path is left out.
	dropped func(path string) bool
	// links has the paths of files with several names, by inode.
	links map[uint64]string
}

// packLayer writes the layer of an upper folder as a blob, compressed.
func packLayer(layout, upper string, below []string, made time.Time, dropped func(string) bool) (l layer, err error) {
	blob, err := newBlob(layout)
	if err != nil {
		return layer{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("layer of %s: %w", upper, errors.Join(err, blob.discard()))
		}
	}()
	compressed, err := zstd.NewWriter(blob)
	if err != nil {
		return layer{}, err
	}
	plain := sha256.New()
	p := packer{
		tar: tar.NewWriter(io.MultiWriter(plain, compressed)), root: upper, below: below, made: made, dropped: dropped, links: map[uint64]string{},
	}
	if err := filepath.WalkDir(upper, p.add); err != nil {
		return layer{}, errors.Join(err, compressed.Close())
	}
	if err := errors.Join(p.tar.Close(), compressed.Close()); err != nil {
		return layer{}, err
	}
	digest, err := blob.commit()
	if err != nil {
		return layer{}, err
	}
	return layer{digest, v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(plain.Sum(nil))}, blob.size, types.OCILayerZStd}, nil
}

func (p *packer) add(file string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name, err := filepath.Rel(p.root, file)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	if p.dropped(name) {
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Lstat(file, &stat); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	// overlayfs marks hidden files this way (Documentation/filesystems/overlayfs.rst, "whiteouts and
	// opaque directories").
	if stat.Mode&unix.S_IFMT == unix.S_IFCHR && stat.Rdev == 0 {
		return p.empty(path.Join(path.Dir(name), whiteout+path.Base(name)))
	}
	header, err := p.header(file, name, entry, &stat)
	if err != nil || header == nil {
		return err
	}
	if err := p.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	switch header.Typeflag {
	case tar.TypeReg:
		return p.content(file)
	case tar.TypeDir:
		opaque, err := attribute(file, "trusted.overlay.opaque")
		if err != nil || opaque != "y" || !p.hides(name) {
			return err
		}
		return p.empty(path.Join(name, whiteoutOpaque))
	}
	return nil
}

// hides reports whether a layer below has the path: overlayfs marks every new folder, even if there
// is nothing to hide.
func (p *packer) hides(name string) bool {
	for _, tree := range p.below {
		if _, err := os.Lstat(filepath.Join(tree, name)); err == nil {
			return true
		}
	}
	return false
}

// header returns the header of an entry; nil for sockets, pipes and devices, which no image needs.
func (p *packer) header(file, name string, entry fs.DirEntry, stat *unix.Stat_t) (*tar.Header, error) {
	info, err := entry.Info()
	if err != nil {
		return nil, err
	}
	h := &tar.Header{
		Name: name, Mode: int64(stat.Mode & 0o7777), Uid: int(stat.Uid), Gid: int(stat.Gid),
		ModTime: p.time(info.ModTime()), Format: tar.FormatPAX,
	}
	if info.Mode().IsRegular() {
		// No program in a container may become another user.
		h.Mode &^= unix.S_ISUID | unix.S_ISGID
	}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		h.Linkname, err = os.Readlink(file)
	case info.Mode().IsRegular() && stat.Nlink > 1 && p.links[stat.Ino] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, p.links[stat.Ino]
	case info.Mode().IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		p.links[stat.Ino] = name
		capabilities, attributeErr := attribute(file, "security.capability")
		if capabilities != "" {
			h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capabilities}
		}
		err = attributeErr
	default:
		return nil, nil
	}
	return h, err
}

// time returns the time of an entry: in whole seconds, and constant for files that the build
// created.
func (p *packer) time(t time.Time) time.Time {
	if !t.Before(p.made) {
		return time.Unix(sourceDate, 0)
	}
	return t.Truncate(time.Second)
}

func (p *packer) content(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(p.tar, f)
	return errors.Join(err, f.Close())
}

// empty writes an empty file, e.g. a whiteout.
func (p *packer) empty(name string) error {
	return p.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(sourceDate, 0), Format: tar.FormatPAX})
}

// attribute returns an extended attribute, empty if there is none.
func attribute(file, name string) (string, error) {
	value := make([]byte, maxAttribute)
	n, err := unix.Lgetxattr(file, name, value)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("attribute %s of %s: %w", name, file, err)
	}
	return string(value[:n]), nil
}
