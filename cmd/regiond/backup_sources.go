package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/backup/etcd"
	"regiond.dev/regiond/bootstrap/backup/schedule"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/components/dump"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/region"
)

// Entries of sources that have one, and the source of the host's own files.
const (
	etcdEntry       = "snapshot.db"
	hostFilesSource = "host"
)

// controlHost is what a backup is made of: by a command, or by the regiond that runs.
type controlHost struct {
	api        client.Client
	rest       *rest.Config
	dataDir    string
	region     *region.Region // as stored
	regionFile string
	host       string
	journal    func(ctx context.Context, w io.Writer) error
}

// back makes a backup. One at a time is made of a control host.
func (h controlHost) back(ctx context.Context, store backup.Store, to []age.Recipient, withoutImages bool, progress func(string)) (*backup.Result, error) {
	unlock, err := debian.LockFile(ctx, datadir.Run.In(h.dataDir, "backup.lock"), func() { progress("waiting for another backup to end") })
	if err != nil {
		return nil, err
	}
	defer unlock()
	var clusters region.OpenStackClusterList
	var servers region.ServerList
	if err := errors.Join(h.api.List(ctx, &clusters), h.api.List(ctx, &servers)); err != nil {
		return nil, err
	}
	owner, err := datadir.ReadOwner(h.dataDir)
	if err != nil {
		return nil, err
	}
	m := backup.Manifest{Region: owner.Region, UID: owner.UID, Host: h.host, Address: h.region.Spec.Networks.Management.Address,
		Version: version, Time: time.Now().UTC().Truncate(time.Second), RegionFile: h.regionFile}
	openStack := &dump.Source{REST: h.rest, DataDir: h.dataDir, WithoutImages: withoutImages}
	for i := range clusters.Items {
		openStack.Clusters = append(openStack.Clusters, clusters.Items[i].Name)
		m.Images = append(m.Images, imageSet(&clusters.Items[i]))
	}
	for _, s := range servers.Items {
		if s.Status.Reinstallation != nil {
			m.Reinstalling = append(m.Reinstalling, s.Name)
		}
	}
	return backup.Create(ctx, backup.CreateConfig{Manifest: m, Recipients: to, Staging: datadir.Backup.In(h.dataDir), Store: store, Progress: progress,
		// The databases first: what they refer to in Kubernetes was there before.
		Sources: []backup.Source{openStack, h.hostFiles(), backup.Folder{As: string(datadir.PKI), Path: datadir.PKI.In(h.dataDir)}, h.etcd(),
			backup.File{As: string(datadir.Journal), Entry: string(datadir.Journal), Read: h.journal}}})
}

func imageSet(c *region.OpenStackCluster) backup.ImageSet {
	s := backup.ImageSet{Cluster: c.Name, Release: string(c.InForce())}
	if c.Spec.Pinned != nil {
		set := openstack.PinnedImages(c.Spec.Pinned)
		for _, name := range set.Names() {
			s.References = append(s.References, set.Images[name].Reference())
		}
	}
	return s
}

func (h controlHost) etcd() backup.File {
	in := func(name string) string { return datadir.PKI.In(h.dataDir, "etcd", name) }
	return backup.File{As: string(datadir.Etcd), Entry: etcdEntry, Read: func(ctx context.Context, w io.Writer) error {
		tls, err := etcd.Files{CA: in("ca.crt"), Certificate: in("kube-apiserver-client.crt"), Key: in("kube-apiserver-client.key")}.TLS()
		if err != nil {
			return err
		}
		return etcd.Save(ctx, etcd.Member{URL: config.Node{}.EtcdURL(), TLS: tls}, w)
	}}
}

// hostFiles are region.yaml and all files that it names.
func (h controlHost) hostFiles() backup.HostFiles {
	paths := []string{h.regionFile}
	for _, c := range h.region.Spec.Hardware.Credentials {
		paths = append(paths, c.File)
	}
	for _, c := range h.region.Spec.OpenStack.Clusters {
		patches, err := filepath.Glob(filepath.Join(cmp.Or(c.PatchesDir, openstack.DefaultPatchesDir(c.Name)), "*.yaml"))
		if err == nil { // the pattern is good
			paths = append(paths, patches...)
		}
	}
	if b := h.region.Spec.Backup; b != nil && b.Destination.S3 != nil {
		paths = append(paths, b.Destination.S3.KeyFile)
		if b.Destination.S3.CAFile != "" {
			paths = append(paths, b.Destination.S3.CAFile)
		}
	}
	return backup.HostFiles{As: hostFilesSource, Paths: paths, Root: "/"}
}

// recipients reads public keys.
func recipients(keys []string) ([]age.Recipient, error) {
	all, err := age.ParseRecipients(strings.NewReader(strings.Join(keys, "\n")))
	if err != nil {
		return nil, fmt.Errorf("recipients of backups: %w; `age-keygen` prints a public key, age1…", err)
	}
	return all, nil
}

// scheduleBackups adds to the manager what makes backups as the Region declares.
func scheduleBackups(m manager.Manager, rt bootstrap.Runtime, api client.Client, regionFile string) error {
	log := rt.Log.With(slog.String("component", "backup"))
	s, err := schedule.New(schedule.Config{
		Client: m.GetClient(), Events: m.GetEventRecorder("regiond-backup"), Region: rt.Region.Name, Clock: clock.RealClock{}, Metrics: metrics.Registry, Log: log,
		Last: func(ctx context.Context, r *region.Region) (time.Time, error) {
			_, own, err := storedOf(ctx, r, rt.DataDir)
			if err != nil || len(own) == 0 {
				return time.Time{}, err
			}
			return own[0].Time, nil
		},
		Make: func(ctx context.Context, r *region.Region) (backup.Stored, error) {
			h := controlHost{api: api, rest: rt.REST, dataDir: rt.DataDir, region: r, regionFile: regionFile, host: rt.Host,
				journal: func(_ context.Context, w io.Writer) error { return journal.CopyOf(rt.DB, w) }}
			return backAsDeclared(ctx, h, log)
		},
		BesideData: func(r *region.Region) (bool, error) {
			d := r.Spec.Backup.Destination.Directory
			if d == "" {
				return false, nil
			}
			return backup.Directory(d).SharesDisk(rt.DataDir)
		},
		Prune: func(ctx context.Context, r *region.Region) error { return pruneAsDeclared(ctx, r, rt.DataDir, log) },
	})
	if err != nil {
		return err
	}
	return m.Add(s)
}

// storedOf lists the backups of a region in its declared destination, the newest first.
func storedOf(ctx context.Context, r *region.Region, dataDir string) (backup.Store, []backup.Stored, error) {
	owner, err := datadir.ReadOwner(dataDir)
	if err != nil {
		return nil, nil, err
	}
	store, err := openStore(r.Spec.Backup.Destination)
	if err != nil {
		return nil, nil, err
	}
	all, err := store.List(ctx)
	return store, backup.Of(all, owner.Region, owner.ID()), err
}

// backAsDeclared makes a backup by spec.backup.
func backAsDeclared(ctx context.Context, h controlHost, log *slog.Logger) (backup.Stored, error) {
	b := h.region.Spec.Backup
	to, err := recipients(b.Recipients)
	if err != nil {
		return backup.Stored{}, err
	}
	store, err := openStore(b.Destination)
	if err != nil {
		return backup.Stored{}, err
	}
	result, err := h.back(ctx, store, to, b.ExcludeGuestImages, func(text string) { log.Debug(text) })
	if err != nil {
		return backup.Stored{}, err
	}
	return result.Stored, nil
}

// pruneAsDeclared removes the backups that spec.backup does not keep any more.
func pruneAsDeclared(ctx context.Context, r *region.Region, dataDir string, log *slog.Logger) error {
	store, all, err := storedOf(ctx, r, dataDir)
	if err != nil {
		return err
	}
	for _, old := range keep(r.Spec.Backup).Expired(all, time.Now()) {
		if err := store.Remove(ctx, old.Name); err != nil {
			return fmt.Errorf("%s: %w", old.Name, err)
		}
		log.Info("backup removed, it is not kept any more", slog.String("backup", old.Name))
	}
	return nil
}

func keep(b *region.Backup) backup.Keep {
	return backup.Keep{Count: int(b.Keep.Count), Days: int(b.Keep.Days)}
}
