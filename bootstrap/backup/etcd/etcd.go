// Package etcd saves the store of the embedded Kubernetes in a backup, and makes a new member of a
// backup.
package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/datadir"
)

const (
	dialTimeout = 10 * time.Second
	// revisionBump goes on top of the revision that is restored. Agents and controllers remember
	// revisions that came after the backup; the store must never count them again for other content.
	// A billion is etcd's own advice: a week of 1,500 writes a second.
	revisionBump = 1_000_000_000
)

// Member of the cluster that is saved, on this host.
type Member struct {
	// URL of its client API.
	URL string
	// TLS to reach it.
	TLS *tls.Config
}

// Files are the paths of a client's certificate for etcd.
type Files struct{ CA, Certificate, Key string }

// TLS reads the files.
func (f Files) TLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("etcd's client certificate: %w", err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("etcd's authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("etcd's authority: %s holds no certificate", f.CA)
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// Save writes a snapshot of the store at one revision, with its digest at the end. Nobody waits for
// it.
func Save(ctx context.Context, m Member, w io.Writer) (err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.URL}, TLS: m.TLS, DialTimeout: dialTimeout, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", m.URL, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return fmt.Errorf("snapshot of etcd at %s: %w", m.URL, err)
	}
	_, err = io.Copy(w, s.Snapshot)
	if err = errors.Join(err, s.Snapshot.Close()); err != nil {
		return fmt.Errorf("snapshot of etcd at %s: %w", m.URL, err)
	}
	return nil
}

// Restore makes the data of a cluster with one member out of a snapshot. The member has the name and
// the peers' URL that it will be started with.
func Restore(ctx context.Context, dataDir, name, peerURL string, content io.Reader) (err error) {
	folder := datadir.Etcd
	if err := folder.Make(dataDir); err != nil {
		return err
	}
	saved := folder.In(dataDir, "restored.db")
	if err := backup.WriteFile(saved, content); err != nil {
		return err
	}
	made := folder.In(dataDir, "restored")
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: saved, OutputDataDir: made, Name: name, PeerURLs: []string{peerURL}, InitialCluster: name + "=" + peerURL,
		InitialClusterToken: "regiond", RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.Rename(filepath.Join(made, "member"), folder.In(dataDir, "member")); err != nil {
		return err
	}
	return errors.Join(os.Remove(made), os.Remove(saved))
}
