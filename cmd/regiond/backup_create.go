package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/region"
)

func newBackupCreateCommand() *cobra.Command {
	var flags backupFlags
	var to []string
	var output string
	var withoutImages bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Back up the control host now",
		Long: `Back up the control host now, while everything runs: databases are dumped in one transaction, and nobody waits.
Where to and for whom spec.backup of the stored region says, unless the flags do. Nothing is removed in exchange;
see regiond backup prune.`,
		Example: `  sudo regiond backup create
  sudo regiond backup create --destination /mnt/usb --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			h, err := flags.controlHost(cmd.Context())
			if err != nil {
				return err
			}
			b := h.region.Spec.Backup
			if b == nil {
				b = &region.Backup{}
			}
			if len(to) == 0 {
				to = b.Recipients
			}
			if len(to) == 0 {
				return invalid(errors.New("a backup needs a recipient: --recipient age1…, or spec.backup.recipients in region.yaml; `age-keygen` makes a pair of keys"))
			}
			readers, err := recipients(to)
			if err != nil {
				return invalid(err)
			}
			store, err := flags.declaredStore(b)
			if err != nil {
				return err
			}
			started := time.Now()
			show := progressPrinter(cmd.ErrOrStderr(), "text", started)
			result, err := h.back(cmd.Context(), store, readers, withoutImages || b.ExcludeGuestImages, show)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, result)
			}
			cmd.Printf("%s in %s: %s, %d entries, SHA-256 %s, in %s\n", result.Name, store, size(result.Size), len(result.Manifest.Entries), result.SHA256,
				time.Since(started).Round(time.Second))
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&to, "recipient", nil, "public key of one who may restore it, age1… (repeatable; default: spec.backup.recipients)")
	cmd.Flags().BoolVar(&withoutImages, "exclude-guest-images", false, "leave out the images that users uploaded to Glance")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return cmd
}

// declaredStore is the destination that was named, or that of the stored region.
func (f *backupFlags) declaredStore(b *region.Backup) (backup.Store, error) {
	switch {
	case f.destination != "":
		return directory(f.destination)
	case b.Destination.Directory == "" && b.Destination.S3 == nil:
		return nil, invalid(errors.New("where to? Name a directory by --destination, or declare spec.backup.destination in region.yaml and apply it"))
	}
	return openStore(b.Destination)
}

// controlHost is the one that runs here.
func (f *backupFlags) controlHost(ctx context.Context) (controlHost, error) {
	h := controlHost{}
	if os.Geteuid() != 0 {
		return h, errors.New("backup create needs root: sudo regiond backup create ...")
	}
	var err error
	if h.dataDir, err = f.where.resolve(); err != nil {
		return h, err
	}
	socket := daemon.SocketPath(h.dataDir)
	s, err := daemon.Fetch(ctx, socket)
	if err != nil {
		return h, unreachable(fmt.Errorf("regiond does not answer on %s: %w; a backup is made of a region that runs, see: regiond status", h.dataDir, err))
	}
	h.regionFile = s.RegionFile
	h.journal = func(ctx context.Context, w io.Writer) error { return daemon.CopyJournal(ctx, socket, w) }
	if h.api, h.rest, err = f.where.api(); err != nil {
		return h, err
	}
	h.region = &region.Region{}
	if err := h.api.Get(ctx, client.ObjectKey{Name: s.Region}, h.region); err != nil {
		return h, err
	}
	region.Default(h.region)
	h.host, err = hostName()
	return h, err
}

// hostName is this host's name as Kubernetes names its node.
func hostName() (string, error) {
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

// size of a file for people.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}
