package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/region"
)

func newBackupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up the control host, and restore it on an empty one",
		Long: `Back up the control host, and restore it on an empty one. A backup has Kubernetes' objects, OpenStack's
databases, the images that users uploaded, certificate authorities and keys, the record of this host, region.yaml
and the files that it names. It is one file, encrypted to the public keys of those who may restore it; a private
key does not belong on the control host. Backups by a schedule are declared in spec.backup of region.yaml.

Servers and guests need no backup for that: they run on, and a restored region finds them.`,
		Example: `  age-keygen -o backup.key                      # once, elsewhere: prints the public key, age1…
  sudo regiond backup create
  regiond backup list -f region.yaml
  regiond backup verify latest --identity backup.key -f region.yaml
  sudo regiond backup restore latest --identity backup.key -f region.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newBackupCreateCommand(), newBackupListCommand(), newBackupVerifyCommand(), newBackupRestoreCommand(), newBackupPruneCommand())
	return cmd
}

// backupFlags say where backups are.
type backupFlags struct {
	where       dataDirFlags
	destination string
}

func (f *backupFlags) add(cmd *cobra.Command) {
	f.where.add(cmd)
	cmd.Flags().StringVar(&f.destination, "destination", "", "directory of backups (default: spec.backup.destination of the region file)")
	_ = cmd.MarkFlagDirname("destination") // the flag exists
}

// regionFile is the one that was named, the running region's, or the installed one.
func (f *backupFlags) regionFile(ctx context.Context) (string, error) {
	if f.where.file != "" {
		return f.where.file, nil
	}
	dataDir, err := f.where.resolve()
	if err != nil {
		return "", err
	}
	if s, err := daemon.Fetch(ctx, daemon.SocketPath(dataDir)); err == nil && s.RegionFile != "" {
		return s.RegionFile, nil
	}
	return install.DefaultPaths.RegionFile, nil
}

// declared is spec.backup of the region file, nil if it has none.
func (f *backupFlags) declared(cmd *cobra.Command) (*region.Region, error) {
	file, err := f.regionFile(cmd.Context())
	if err != nil {
		return nil, err
	}
	r, _, err := loadRegion(cmd, file)
	return r, err
}

// store opens the destination that was named, or declared.
func (f *backupFlags) store(cmd *cobra.Command) (backup.Store, error) {
	if f.destination != "" {
		return directory(f.destination)
	}
	r, err := f.declared(cmd)
	if err != nil {
		return nil, err
	}
	if r.Spec.Backup == nil {
		return nil, invalid(errors.New("the region file has no spec.backup: name the directory of the backups by --destination"))
	}
	return openStore(r.Spec.Backup.Destination)
}

func directory(path string) (backup.Store, error) {
	path, err := filepath.Abs(path)
	return backup.Directory(path), err
}

// openStore opens a declared destination.
func openStore(d region.BackupDestination) (backup.Store, error) {
	if s := d.S3; s != nil {
		return backup.NewS3(backup.S3Config{Endpoint: s.Endpoint, Bucket: s.Bucket, Prefix: s.Prefix, Region: s.Region, KeyFile: s.KeyFile, CAFile: s.CAFile})
	}
	return backup.Directory(d.Directory), nil
}

// latest names the newest backup of a destination.
const latest = "latest"

// found is a backup that a command was given.
type found struct {
	name string
	open func(ctx context.Context) (io.ReadCloser, error)
}

// find a backup by the path of its file, or by its name in the destination.
func (f *backupFlags) find(cmd *cobra.Command, arg string) (found, error) {
	if _, err := os.Stat(arg); err == nil || strings.ContainsRune(arg, filepath.Separator) {
		if err != nil {
			return found{}, invalid(err)
		}
		return found{filepath.Base(arg), func(context.Context) (io.ReadCloser, error) { return os.Open(arg) }}, nil
	}
	store, err := f.store(cmd)
	if err != nil {
		return found{}, err
	}
	all, err := store.List(cmd.Context())
	if err != nil {
		return found{}, err
	}
	i := slices.IndexFunc(all, func(s backup.Stored) bool { return s.Name == arg || arg == latest })
	if i < 0 {
		return found{}, invalid(fmt.Errorf("there is no backup %s in %s; see: regiond backup list", arg, store))
	}
	if regions := regionsOf(all); arg == latest && len(regions) > 1 {
		return found{}, invalid(fmt.Errorf("%s has backups of several regions: %s; name the backup", store, strings.Join(regions, ", ")))
	}
	name := all[i].Name
	return found{name, func(ctx context.Context) (io.ReadCloser, error) { return store.Open(ctx, name) }}, nil
}

// regionsOf backups, by name and the beginning of the UID.
func regionsOf(all []backup.Stored) (names []string) {
	for _, s := range all {
		if name := s.Region + "-" + s.ID; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// complete names of backups.
func (f *backupFlags) complete(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []cobra.Completion{latest}
	if store, err := f.store(cmd); err == nil {
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		all, err := store.List(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		for _, s := range all {
			names = append(names, s.Name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault // files, too
}

// readIdentities reads the file with private keys. Errors don't show what is in it.
func readIdentities(file string) ([]age.Identity, error) {
	if file == "" {
		return nil, invalid(errors.New("--identity is missing: name the file with the private key, as age-keygen wrote it"))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, invalid(err)
	}
	defer f.Close()
	all, err := age.ParseIdentities(f)
	if err != nil {
		return nil, invalid(fmt.Errorf("%s has no private key of age; it is the file that age-keygen wrote, with a line AGE-SECRET-KEY-1…", file))
	}
	return all, nil
}

func addIdentityFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "identity", "", "file with the private key of a recipient")
	_ = cmd.MarkFlagFilename("identity") // the flag exists
}

// backupError gives refusals of backups their exit status.
func backupError(err error) error {
	if errors.Is(err, backup.ErrWrongKey) || errors.Is(err, backup.ErrNewer) || errors.Is(err, backup.ErrDamaged) {
		return refused(err)
	}
	return err
}
