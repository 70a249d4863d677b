package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
)

// Folder on the seed host that pods mount.
type Folder struct {
	Path string
	Mode fs.FileMode
	UID  int
}

// folders of a cluster. The container of the database makes one only where it finds the folder
// create, which it then removes: a pod that is started again where the data was lost stops instead.
func folders(dataDir, cluster string, create bool) []Folder {
	top := openstack.DataDir(dataDir, cluster)
	all := []Folder{
		{filepath.Dir(top), 0o711, 0},
		{top, 0o711, 0},
	}
	for _, s := range service.All {
		for _, f := range s.Folders {
			all = append(all, Folder{filepath.Join(top, f.Name), f.Mode, s.User})
		}
	}
	if create {
		all = append(all, Folder{createFolder(dataDir, cluster), 0o700, service.MariaDB.User})
	}
	return all
}

// ownFolder makes a folder, or repairs its owner and mode. What is in it is left alone.
func ownFolder(f Folder) error {
	if err := os.Mkdir(f.Path, f.Mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	i, err := os.Lstat(f.Path)
	if err != nil {
		return err
	}
	if !i.IsDir() {
		return fmt.Errorf("%s is not a folder; move it away, services keep their data there", f.Path)
	}
	if s, ok := i.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != f.UID || int(s.Gid) != f.UID) {
		if err := os.Chown(f.Path, f.UID, f.UID); err != nil {
			return err
		}
	}
	if i.Mode().Perm() != f.Mode {
		return os.Chmod(f.Path, f.Mode)
	}
	return nil
}

// freeSpace of a file system that unprivileged users may fill.
func freeSpace(path string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

// neverHadSecrets refuses to generate secrets for databases that have others: both would be lost together only by someone's hand.
func (t *reconciliation) neverHadSecrets() error {
	dir := databaseDir(t.DataDir, t.cluster.Name)
	there, err := databaseThere(dir)
	if err != nil || !there {
		return err
	}
	return fmt.Errorf("the secret %s/%s is missing, but %s holds a database that has its passwords; "+
		"restore the secret from a backup, or, to begin with an empty database, move the folder %s away",
		openstack.Namespace(t.cluster.Name), openstack.SecretName, dir, openstack.DataDir(t.DataDir, t.cluster.Name))
}
