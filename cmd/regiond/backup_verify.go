package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/components/dump"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// maxRegionFile bounds what is kept of a backup's region.yaml in bytes.
const maxRegionFile = 4 << 20

// opened is a backup whose encryption and digests were proved.
type opened struct {
	found
	identities []age.Identity
	manifest   backup.Manifest
	// region.yaml of the backup, by its path there.
	regionFile []byte
}

// readBackup reads all of a backup.
func readBackup(ctx context.Context, f found, identities []age.Identity) (b opened, err error) {
	b = opened{found: f, identities: identities}
	r, err := f.open(ctx)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	files := map[string][]byte{}
	b.manifest, err = backup.Verify(ctx, r, func(e backup.Entry, content io.Reader) error {
		if !strings.HasPrefix(e.Name, hostFilesSource+"/") || e.Size > maxRegionFile {
			return nil
		}
		text, err := io.ReadAll(content)
		files[e.Name] = text
		return err
	}, identities...)
	if err != nil {
		return b, backupError(fmt.Errorf("%s: %w", f.name, err))
	}
	b.regionFile = files[backup.HostFiles{As: hostFilesSource}.Entry(b.manifest.RegionFile)]
	return b, nil
}

// region that a file declares, or else the region.yaml in the backup.
func (b opened) region(cmd *cobra.Command, file string) (*region.Region, error) {
	if file != "" {
		r, _, err := loadRegion(cmd, file)
		return r, err
	}
	if b.regionFile == nil {
		return nil, invalid(errors.New("the backup has no region.yaml; name one by -f"))
	}
	doc, err := check.Load(b.regionFile, b.manifest.RegionFile+" in the backup")
	if err != nil {
		return nil, err
	}
	region.Default(doc.Region)
	return doc.Region, nil
}

func newBackupVerifyCommand() *cobra.Command {
	var flags backupFlags
	var identity, output string
	var databases bool
	cmd := &cobra.Command{
		Use:   "verify BACKUP",
		Short: "Check that a backup can be restored",
		Long: `Check a backup: that it can be decrypted, that everything is in it, and that nothing was changed. With
--databases OpenStack's databases are made of it in a scratch folder, by a MariaDB of their own from the images
on this host, and their tables, definitions and rows are compared with what was backed up.

BACKUP is a file, the name of a backup in the destination, or "latest".`,
		Example: `  regiond backup verify latest --identity backup.key -f region.yaml
  sudo regiond backup verify /mnt/backups/north-1-0a1b2c3d-20261201T034500Z.tar.zst.age --identity backup.key --databases`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
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
			report := verification{Backup: f.name, Manifest: b.manifest}
			if databases {
				if report.Databases, err = verifyDatabases(cmd, b, flags.where.file); err != nil {
					return err
				}
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, report)
			}
			return report.write(cmd.OutOrStdout(), time.Now())
		},
	}
	flags.add(cmd)
	addIdentityFlag(cmd, &identity)
	cmd.Flags().BoolVar(&databases, "databases", false, "restore the databases into a scratch folder and compare them (needs root)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return cmd
}

// verification is what was found.
type verification struct {
	Backup   string          `json:"backup"`
	Manifest backup.Manifest `json:"manifest"`
	// Databases by OpenStack cluster, if they were restored.
	Databases map[string]dump.Summary `json:"databases,omitempty"`
}

func (v verification) write(w io.Writer, now time.Time) error {
	m := v.Manifest
	var bytes int64
	for _, e := range m.Entries {
		bytes += e.Size
	}
	lines := []string{
		fmt.Sprintf("%s: region %s, uid %s, host %s", v.Backup, m.Region, m.UID, m.Host),
		fmt.Sprintf("made at %s (%s ago) by regiond %s", m.Time.Format(time.RFC3339), duration.HumanDuration(now.Sub(m.Time)), m.Version),
		fmt.Sprintf("%d entries, %s unpacked: all are whole", len(m.Entries), size(bytes)),
	}
	for _, cluster := range slices.Sorted(maps.Keys(v.Databases)) {
		s := v.Databases[cluster]
		lines = append(lines, fmt.Sprintf("databases of OpenStack cluster %s: restored, %d tables, %d rows, as they were backed up", cluster, len(s), s.Rows()))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// verifyDatabases restores the databases alone, and removes them again.
func verifyDatabases(cmd *cobra.Command, b opened, file string) (_ map[string]dump.Summary, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("verify --databases needs root: it starts MariaDB as a user of its own")
	}
	ordinaryUmask()
	r, err := b.region(cmd, file)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("/var/tmp", "regiond-verify-") // not in memory, as /tmp may be
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	to := dump.NewRestorer(scratch, b.unpackDatabase(r.Spec.Images.Dir))
	to.DatabasesOnly = true
	content, err := b.open(cmd.Context())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	_, err = backup.Verify(cmd.Context(), content, func(e backup.Entry, content io.Reader) error {
		if name, ok := strings.CutPrefix(e.Name, dump.SourceName+"/"); ok {
			return to.Restore(cmd.Context(), name, content)
		}
		return nil
	}, b.identities...)
	if err == nil {
		err = to.Finish(cmd.Context())
	}
	return to.Restored(), refused(err)
}

// unpackDatabase gives the restorer MariaDB's programs: of the image that the cluster ran, or else of
// the one that was built last for its release.
func (b opened) unpackDatabase(imageDir string) func(ctx context.Context, cluster, dir string) error {
	return func(ctx context.Context, cluster, dir string) error {
		image, err := databaseImage(imageDir, b.manifest.ImagesOf(cluster))
		if err != nil {
			return err
		}
		return oci.Unpack(ctx, imageDir, image, dir)
	}
}

func databaseImage(imageDir string, ran backup.ImageSet) (oci.Image, error) {
	sets, err := oci.Kept(imageDir)
	if err != nil {
		return oci.Image{}, err
	}
	for _, set := range sets {
		if image := set.Images[service.MariaDB.Name]; slices.Contains(ran.References, image.Reference()) {
			return image, nil
		}
	}
	set, err := oci.Current(imageDir, ran.Release)
	return set.Images[service.MariaDB.Name], err
}
