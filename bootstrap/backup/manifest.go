// Package backup writes, checks and restores backups of a region's control host. It knows the format
// and the order of things; what is in a backup each room hands in, and takes back, by itself.
//
// A backup is one file: a tar archive, compressed by zstd, encrypted by age
// (https://age-encryption.org/v1) to the public keys of those who may restore it. Its first member
// is the manifest, which has the digest of every other. So nothing of a backup is readable, or
// changed unnoticed, without a private key; and with one, common tools open it:
//
//	age -d -i key.txt BACKUP | zstd -d | tar -t
//
// Encryption keeps others from reading a backup. It does not prove who made one: whoever can write
// to the destination can put another file there, made with the public keys.
package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// Format is the version of the format that this program writes, and the newest that it reads.
const Format = 1

// manifestName is the first member of the archive.
const manifestName = "manifest.json"

// maxManifest bounds a manifest in bytes; it has about 150 for each entry.
const maxManifest = 64 << 20

// Manifest says what a backup is of and what is in it.
type Manifest struct {
	Format int `json:"format"`
	// Region by its name and UID, see datadir.Owner.
	Region string    `json:"region"`
	UID    uuid.UUID `json:"uid"`
	// Host is the control host's name, and Address its management address. A region is restored on a
	// host that has both: etcd's member and all certificates carry them.
	Host    string `json:"host"`
	Address string `json:"address"`
	// Version of the regiond that made the backup.
	Version string `json:"version"`
	// Time at which it was begun. What changed later need not be in it.
	Time time.Time `json:"time"`
	// RegionFile is the path of region.yaml on the control host; the file is in the backup.
	RegionFile string `json:"regionFile"`
	// Images that the region's OpenStack clusters run. They are not in the backup.
	Images []ImageSet `json:"images,omitempty"`
	// Reinstalling are the servers whose installation was accepted and not over: after a restore they
	// are installed, even if that was done meanwhile.
	Reinstalling []string `json:"reinstalling,omitempty"`

	Entries []Entry `json:"entries"`
}

// ImageSet is what an OpenStack cluster runs.
type ImageSet struct {
	Cluster string `json:"cluster"`
	Release string `json:"release"`
	// References of the images by which they are pulled, with their digests.
	References []string `json:"references,omitempty"`
}

// ImagesOf an OpenStack cluster.
func (m Manifest) ImagesOf(cluster string) ImageSet {
	for _, s := range m.Images {
		if s.Cluster == cluster {
			return s
		}
	}
	return ImageSet{Cluster: cluster}
}

// Entry is one file in a backup.
type Entry struct {
	// Name begins with that of its source: "pki/ca.crt".
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 in hex.
	SHA256 string `json:"sha256"`
}

// Errors of backups that can't be used, to be told apart by errors.Is.
var (
	// ErrDamaged: content differs from what was written, or is missing.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrWrongKey: none of the given identities opens it.
	ErrWrongKey = errors.New("the backup is encrypted to other keys")
	// ErrNewer: a later regiond wrote it.
	ErrNewer = errors.New("the backup has a newer format")
)

func readManifest(r io.Reader) (Manifest, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	if len(b) > maxManifest {
		return Manifest{}, fmt.Errorf("%w: the manifest has more than %d bytes", ErrDamaged, maxManifest)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	if version.Format > Format {
		return Manifest{}, fmt.Errorf("%w: %d, this regiond reads up to %d; use the regiond that wrote it, or a later one", ErrNewer, version.Format, Format)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	return m, m.check()
}

// check refuses what no regiond writes, above all names that lead out of the data directory.
func (m Manifest) check() error {
	if m.Format < 1 || m.Region == "" || m.UID == uuid.Nil || m.Time.IsZero() {
		return fmt.Errorf("%w: the manifest lacks format, region, uid or time", ErrDamaged)
	}
	seen := map[string]bool{}
	for _, e := range m.Entries {
		if !filepath.IsLocal(e.Name) || filepath.Clean(e.Name) != e.Name || filepath.Dir(e.Name) == "." || seen[e.Name] || e.Size < 0 {
			return fmt.Errorf("%w: the manifest has the entry %q", ErrDamaged, e.Name)
		}
		seen[e.Name] = true
	}
	return nil
}

// Target is the host that a region is to be restored on, and what region.yaml says.
type Target struct {
	// Region and Address as in region.yaml.
	Region, Address string
	// Host is this host's name, as Kubernetes would name its node.
	Host string
}

// Fits refuses a target that the region would not come up on, with everything that is wrong.
func (m Manifest) Fits(t Target) error {
	var all []error
	if m.Region != t.Region {
		all = append(all, fmt.Errorf("the backup is of region %q, region.yaml names %q; take that region's backup, or its region.yaml", m.Region, t.Region))
	}
	if m.Address != t.Address {
		all = append(all, fmt.Errorf("the region's management address is %s, region.yaml says %s; its etcd member, its certificates and its servers know the old one. "+
			"Give this host the address %s and set it in region.yaml", m.Address, t.Address, m.Address))
	}
	if m.Host != t.Host {
		all = append(all, fmt.Errorf("the region's control host is named %q, this host %q; set the name: hostnamectl set-hostname %s", m.Host, t.Host, m.Host))
	}
	return errors.Join(all...)
}
