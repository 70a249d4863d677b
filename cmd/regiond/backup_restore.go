package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/backup/etcd"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/components/dump"
	"regiond.dev/regiond/images/oci"
)

func newBackupRestoreCommand() *cobra.Command {
	var flags backupFlags
	var identity, output string
	var yes bool
	cmd := &cobra.Command{
		Use:   "restore BACKUP",
		Short: "Restore a backup on an empty host",
		Long: `Restore a backup on an empty host, which becomes the same control host: same name, same management address, same
authorities and keys. Show first what is restored and what is lost. When it is done, regiond install (or run)
brings the region up; servers and their agents find it, and nothing on them is installed or changed.

It refuses a data directory that is not empty, a backup that is damaged or encrypted to other keys, and one of
another region than region.yaml names. The control host that the backup was made on must be off for good: two with
one address and one identity destroy each other's state. Interrupted, the same command begins again.

BACKUP is a file, the name of a backup in the destination, or "latest". Without -f the region.yaml in the backup
holds; it is put where it was, like the files that it names, unless there are others.`,
		Example: `  sudo regiond backup restore /mnt/backups/north-1-0a1b2c3d-20261201T034500Z.tar.zst.age --identity backup.key
  sudo regiond backup restore latest --identity backup.key -f region.yaml --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return errors.New("backup restore needs root: sudo regiond backup restore ...")
			}
			ordinaryUmask()
			identities, err := readIdentities(identity)
			if err != nil {
				return err
			}
			f, err := flags.find(cmd, args[0])
			if err != nil {
				return err
			}
			b, err := readBackup(cmd.Context(), f, identities)
			if err != nil {
				return err
			}
			plan, err := planRestore(cmd, b, flags.where)
			if err != nil {
				return err
			}
			if output == "json" {
				err = writeAs(cmd.OutOrStdout(), output, plan)
			} else {
				err = plan.write(cmd.OutOrStdout(), time.Now())
			}
			if err != nil || output == "json" && !yes {
				return err
			}
			if !yes {
				if err := approve(cmd.InOrStdin(), cmd.OutOrStdout(), "Restore this region here?"); err != nil {
					return err
				}
			}
			return plan.execute(cmd.Context(), progressPrinter(cmd.ErrOrStderr(), "text", time.Now()))
		},
	}
	flags.add(cmd)
	addIdentityFlag(cmd, &identity)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return cmd
}

// restorePlan is what a restore does. Making it changes nothing.
type restorePlan struct {
	Backup   string          `json:"backup"`
	Manifest backup.Manifest `json:"manifest"`
	DataDir  string          `json:"dataDir"`
	// Lost says from when on what happened is not in the backup.
	Lost     time.Time `json:"lostAfter"`
	Warnings []string  `json:"warnings,omitempty"`

	backup   opened
	imageDir string
}

func planRestore(cmd *cobra.Command, b opened, where dataDirFlags) (*restorePlan, error) {
	m := b.manifest
	r, err := b.region(cmd, where.file)
	if err != nil {
		return nil, err
	}
	host, err := hostName()
	if err != nil {
		return nil, err
	}
	if err := m.Fits(backup.Target{Region: r.Name, Address: r.Spec.Networks.Management.Address, Host: host}); err != nil {
		return nil, refused(err)
	}
	p := &restorePlan{Backup: b.name, Manifest: m, DataDir: r.Spec.ControlPlane.DataDir, Lost: m.Time, backup: b, imageDir: r.Spec.Images.Dir}
	if where.dataDir != "" {
		p.DataDir = where.dataDir
	}
	if p.DataDir, err = datadir.Resolve(p.DataDir); err != nil {
		return nil, err
	}
	pid, err := datadir.LockOwner(p.DataDir)
	if err != nil {
		return nil, err
	}
	if pid != 0 {
		return nil, refused(fmt.Errorf("regiond runs on %s, pid %d: a backup is not restored over a live region", p.DataDir, pid))
	}
	c := p.config(nil)
	if err := errors.Join(c.Check(), c.Known(m)); err != nil {
		return nil, refused(err)
	}
	return p, p.checkImages()
}

// checkImages warns of images that are needed and not there, and refuses when the databases can't be
// made without them.
func (p *restorePlan) checkImages() error {
	for _, s := range p.Manifest.Images {
		missing := oci.Missing(p.imageDir, s.References)
		if len(missing) > 0 {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%d of the %d images that OpenStack cluster %s runs are not in %s. Copy that folder from where it is kept; or build images "+
				"(`regiond image build -f region.yaml`) and, when the region runs, give them to the cluster by `regiond apply`", len(missing), len(s.References), s.Cluster, p.imageDir))
		}
		if _, err := databaseImage(p.imageDir, s); err != nil && p.hasDump(s.Cluster) {
			return refused(fmt.Errorf("the databases of OpenStack cluster %s are made by MariaDB of its image, and there is none: %w", s.Cluster, err))
		}
	}
	if len(p.Manifest.Reinstalling) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("these servers were being installed again when the backup was made, and will be: %s. If that was done meanwhile, and guests are on "+
			"them, unplug their BMCs and clear spec.reinstallAfter first", strings.Join(p.Manifest.Reinstalling, ", ")))
	}
	return nil
}

func (p *restorePlan) hasDump(cluster string) bool {
	for _, e := range p.Manifest.Entries {
		if strings.HasPrefix(e.Name, dump.SourceName+"/"+cluster+"/mariadb.sql") {
			return true
		}
	}
	return false
}

func (p *restorePlan) write(w io.Writer, now time.Time) error {
	m := p.Manifest
	bytes := map[string]int64{}
	var files []string
	for _, e := range m.Entries {
		source, name, _ := strings.Cut(e.Name, "/")
		bytes[source] += e.Size
		if source == hostFilesSource {
			files = append(files, "           /"+name)
		}
	}
	lines := []string{fmt.Sprintf("To restore region %s, uid %s, from %s into %s:", m.Region, m.UID, p.Backup, p.DataDir)}
	for _, s := range []struct{ source, what string }{
		{dump.SourceName, "OpenStack: databases, images that users uploaded"},
		{string(datadir.Etcd), "Kubernetes' objects, passwords among them"},
		{string(datadir.PKI), "certificate authorities, and the key of Secrets"},
		{string(datadir.Journal), "DHCP leases and the record of this host"},
		{hostFilesSource, "region.yaml and the files that it names, where there are none"},
	} {
		if n, there := bytes[s.source]; there {
			lines = append(lines, fmt.Sprintf("  restore  %s (%s)", s.what, size(n)))
		}
	}
	lines = append(lines, files...) // the last row: they are outside of the data directory, each is shown
	lines = append(lines,
		fmt.Sprintf("  lost     everything that happened after %s, %s ago", m.Time.Format(time.RFC3339), duration.HumanDuration(now.Sub(m.Time))),
		"  lost     messages in RabbitMQ; services send them again",
		"  keep     servers, their disks and guests: nothing on them is installed or changed")
	for _, x := range p.Warnings {
		lines = append(lines, "warning: "+x)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func (p *restorePlan) config(progress func(string)) backup.RestoreConfig {
	return backup.RestoreConfig{Open: p.backup.open, Name: p.Backup, Identities: p.backup.identities, DataDir: p.DataDir, Progress: progress,
		Restorers: []backup.Restorer{
			dump.NewRestorer(p.DataDir, p.backup.unpackDatabase(p.imageDir)),
			backup.HostFiles{As: hostFilesSource, Root: "/", Kept: func(path string) { progress(path + " is there already and stays as it is") }},
			backup.Folder{As: string(datadir.PKI), Path: datadir.PKI.In(p.DataDir)},
			backup.File{As: string(datadir.Etcd), Entry: etcdEntry, Write: p.restoreEtcd},
			backup.File{As: string(datadir.Journal), Entry: string(datadir.Journal), Write: func(_ context.Context, content io.Reader) error {
				return backup.WriteFile(datadir.Journal.In(p.DataDir), content)
			}},
		}}
}

func (p *restorePlan) restoreEtcd(ctx context.Context, content io.Reader) error {
	address, err := netip.ParseAddr(p.Manifest.Address)
	if err != nil {
		return fmt.Errorf("management address in the backup: %w", err)
	}
	return etcd.Restore(ctx, p.DataDir, p.Manifest.Host, config.EtcdPeerURL(address), content)
}

// execute the plan, with the data directory locked.
func (p *restorePlan) execute(ctx context.Context, show func(string)) (err error) {
	lock, err := datadir.TakeLock(p.DataDir)
	if err != nil {
		return refused(err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := backup.Restore(ctx, p.config(show), p.Manifest); err != nil {
		return fmt.Errorf("%w\nThe data directory %s is not whole, and regiond does not start on it: run the same command again", err, p.DataDir)
	}
	show(fmt.Sprintf("region %s is restored; start it: regiond install -f %s", p.Manifest.Region, p.Manifest.RegionFile))
	return nil
}
