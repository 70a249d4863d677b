package dump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
)

// Restorer makes the databases of dumps, and puts back the files of clusters, in a data directory
// that nothing runs on.
type Restorer struct {
	DataDir string
	// Unpack makes a folder with the file system of an image that has MariaDB's programs, of the
	// release that the cluster runs.
	Unpack func(ctx context.Context, cluster, dir string) error
	// DatabasesOnly leaves out all other files: what is restored is only looked at.
	DatabasesOnly bool

	want, got map[string]Summary // by cluster
	clusters  []string

	// host: MariaDB's programs are this host's and run as nobody; for tests.
	host bool
}

// NewRestorer of a data directory.
func NewRestorer(dataDir string, unpack func(ctx context.Context, cluster, dir string) error) *Restorer {
	return &Restorer{DataDir: dataDir, Unpack: unpack, want: map[string]Summary{}, got: map[string]Summary{}}
}

// Name in backups.
func (r *Restorer) Name() string { return SourceName }

// Restored databases by cluster, once Finish has returned nil.
func (r *Restorer) Restored() map[string]Summary { return r.got }

// Restore one entry.
func (r *Restorer) Restore(ctx context.Context, name string, content io.Reader) error {
	cluster, rest, _ := strings.Cut(name, "/")
	if !slices.Contains(r.clusters, cluster) {
		r.clusters = append(r.clusters, cluster)
		if err := r.folders(cluster); err != nil {
			return err
		}
	}
	copied, isCopy := strings.CutPrefix(rest, removedDir+"/")
	isImage := strings.HasPrefix(rest, imagesDir+"/")
	switch {
	case rest == dumpFile:
		return r.database(ctx, cluster, content)
	case rest == summaryFile:
		s := Summary{}
		if err := json.NewDecoder(content).Decode(&s); err != nil {
			return err
		}
		r.want[cluster] = s
		return nil
	case r.DatabasesOnly && (isImage || isCopy):
		return nil
	case isImage:
		return r.file(cluster, rest, content)
	case isCopy:
		return r.file(cluster, copied, content)
	}
	return errors.New("this regiond does not know what it is; use the one that made the backup, or a later one")
}

// Finish compares the databases with what was dumped.
func (r *Restorer) Finish(context.Context) error {
	for _, cluster := range slices.Sorted(maps.Keys(r.got)) {
		want, there := r.want[cluster]
		if !there {
			return fmt.Errorf("OpenStack cluster %s: the backup does not say what is in its databases", cluster)
		}
		if d := want.Differences(r.got[cluster]); len(d) > 0 {
			return fmt.Errorf("OpenStack cluster %s: its databases are not what was backed up: %s", cluster, strings.Join(d, "; "))
		}
	}
	return nil
}

// folders that pods of a cluster mount.
func (r *Restorer) folders(cluster string) error {
	top := openstack.DataDir(r.DataDir, cluster)
	for _, dir := range []string{filepath.Dir(top), top} {
		if err := ownFolder(dir, 0o711, os.Geteuid()); err != nil {
			return err
		}
	}
	for _, s := range service.All {
		for _, f := range s.Folders {
			if err := ownFolder(filepath.Join(top, f.Name), f.Mode, r.owner(f.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// owner of what is in a folder of a cluster.
func (r *Restorer) owner(folder string) int {
	if r.host {
		return nobody
	}
	for _, s := range service.All {
		for _, f := range s.Folders {
			if f.Name == folder {
				return s.User
			}
		}
	}
	return 0
}

func ownFolder(dir string, mode fs.FileMode, owner int) error {
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return errors.Join(os.Chmod(dir, mode), os.Chown(dir, owner, owner))
}

// nobody is the user of tests.
const nobody = 65534

// file of a cluster, by its path below the cluster's folder.
func (r *Restorer) file(cluster, path string, content io.Reader) (err error) {
	top := openstack.DataDir(r.DataDir, cluster)
	folder, _, _ := strings.Cut(path, "/")
	owner := r.owner(folder)
	if owner == 0 {
		return fmt.Errorf("no service of OpenStack keeps files in %s", folder)
	}
	for at, c := range path {
		if c == '/' && at > len(folder) {
			if err := ownFolder(filepath.Join(top, path[:at]), 0o700, owner); err != nil {
				return err
			}
		}
	}
	f, err := os.OpenFile(filepath.Join(top, path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chown(owner, owner); err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return err
}

// database of a cluster, made of a dump by a server that is there for that alone.
func (r *Restorer) database(ctx context.Context, cluster string, content io.Reader) (err error) {
	top := openstack.DataDir(r.DataDir, cluster)
	s := &server{root: filepath.Join(top, "restore"), dir: "/restore", user: uint32(service.MariaDB.User), superuser: "mysql"}
	if r.host {
		s = &server{root: "/", dir: s.root, user: nobody, superuser: "nobody"}
	} else if err := r.Unpack(ctx, cluster, s.root); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(top, "restore"))) }()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := r.fill(ctx, cluster, s, content); err != nil {
		return errors.Join(err, s.kill())
	}
	if err := s.stop(); err != nil {
		return err
	}
	return os.Rename(s.data(), filepath.Join(top, service.FolderDatabase, "data"))
}

func (r *Restorer) fill(ctx context.Context, cluster string, s *server, content io.Reader) error {
	if err := s.load(ctx, content); err != nil {
		return err
	}
	var err error
	r.got[cluster], err = s.summary(ctx)
	return err
}
