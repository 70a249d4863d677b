package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	corev1 "k8s.io/api/core/v1"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
)

// SourceName is the name of the databases in backups.
const SourceName = "openstack"

// Files of a cluster in a backup: CLUSTER/mariadb.sql and so on.
const (
	dumpFile    = "mariadb.sql"
	summaryFile = "mariadb.json"
	imagesDir   = "glance/images"
	removedDir  = "data" // of a cluster that was removed, as it is on the disk
)

// Source backs up what OpenStack clusters keep on this host.
type Source struct {
	REST    *rest.Config
	DataDir string
	// Clusters that are declared. What others left behind is copied as it is: nothing runs on it.
	Clusters []string
	// WithoutImages leaves out the images that users have uploaded to Glance.
	WithoutImages bool

	// exec runs a shell script where the database runs; for tests.
	exec func(ctx context.Context, cluster, script string, stdout io.Writer) error
}

// Name in backups.
func (s *Source) Name() string { return SourceName }

// Backup hands in, for each cluster, the dump of its databases, what is in it, and Glance's images.
// The databases come first: an image that they do not know does no harm.
func (s *Source) Backup(ctx context.Context, add func(name string, content io.Reader) error) error {
	found, err := os.ReadDir(filepath.Dir(openstack.DataDir(s.DataDir, "x")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range found {
		if !f.IsDir() {
			continue
		}
		if slices.Contains(s.Clusters, f.Name()) {
			err = s.cluster(ctx, f.Name(), add)
		} else {
			err = s.removed(f.Name(), add)
		}
		if err != nil {
			return fmt.Errorf("OpenStack cluster %s: %w", f.Name(), err)
		}
	}
	return nil
}

func (s *Source) cluster(ctx context.Context, name string, add func(string, io.Reader) error) error {
	top := openstack.DataDir(s.DataDir, name)
	there, err := os.ReadDir(filepath.Join(top, service.FolderDatabase, "data"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(there) == 0 {
		return nil // no database was created yet
	}
	if err != nil {
		return err
	}
	summary := newReader()
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(s.run(ctx, name, dumpScript, io.MultiWriter(w, summary)))
	}()
	err = errors.Join(add(name+"/"+dumpFile, r), r.Close())
	if err != nil {
		return fmt.Errorf("dump of its databases: %w", err)
	}
	tables, err := summary.result()
	if err != nil {
		return err
	}
	b, err := json.Marshal(tables)
	if err != nil {
		return err
	}
	if err := add(name+"/"+summaryFile, bytes.NewReader(b)); err != nil {
		return err
	}
	if s.WithoutImages {
		return nil
	}
	return addFolder(filepath.Join(top, imagesDir), name+"/"+imagesDir, add)
}

// removed copies what a removed cluster keeps: databases, which nothing has open, and images.
func (s *Source) removed(name string, add func(string, io.Reader) error) error {
	return addFolder(openstack.DataDir(s.DataDir, name), name+"/"+removedDir, add)
}

// addFolder hands in all files of a folder that is there.
func addFolder(dir, as string, add func(string, io.Reader) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // none, or removed meanwhile
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return add(as+"/"+filepath.ToSlash(name), f)
	})
}

// options of all programs: the superuser by the socket, without a password, as in the pod's scripts.
const options = "--no-defaults --socket=/run/mysqld/mysqld.sock --default-character-set=utf8mb4"

// dumpFlags make one consistent dump of what is committed, without a lock that anybody waits for.
const dumpFlags = "--single-transaction --quick --skip-lock-tables --routines --events --triggers --hex-blob --no-autocommit " +
	"--skip-dump-date --max-allowed-packet=64M"

// dumpScript prints the users with their passwords' hashes and rights, then all databases.
const dumpScript = `set -euo pipefail
databases=$(mariadb ` + options + ` --batch --skip-column-names --execute "SELECT schema_name FROM information_schema.schemata
  WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY schema_name")
mariadb-dump ` + options + ` --system=users --insert-ignore
mariadb-dump ` + options + ` ` + dumpFlags + ` --databases $databases`

func (s *Source) run(ctx context.Context, cluster, script string, stdout io.Writer) error {
	if s.exec != nil {
		return s.exec(ctx, cluster, script, stdout)
	}
	c, err := kubernetes.NewForConfig(s.REST)
	if err != nil {
		return err
	}
	pod := service.MariaDB.Name + "-0"
	request := c.CoreV1().RESTClient().Post().Resource("pods").Namespace(openstack.Namespace(cluster)).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: service.MariaDB.Name, Command: []string{"/bin/bash", "-c", script}, Stdout: true, Stderr: true},
			clientscheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(s.REST, "GET", request.URL().String())
	if err != nil {
		return err
	}
	said := &tail{}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: said}); err != nil {
		return fmt.Errorf("in pod %s: %w: %s", pod, err, said)
	}
	return nil
}

// tail keeps the end of what a program says.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(len(t.b)-2048, 0):]
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.b)) }
