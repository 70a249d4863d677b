package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"regiond.dev/regiond/bootstrap/backup"
)

func newBackupListCommand() *cobra.Command {
	var flags backupFlags
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backups in a destination",
		Long: `List the backups in a destination, the newest first. Region and time are those in the file names: what is in a
backup only its recipients can read.`,
		Example: `  regiond backup list -f region.yaml
  regiond backup list --destination /mnt/backups -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "table", "json"); err != nil {
				return err
			}
			store, err := flags.store(cmd)
			if err != nil {
				return err
			}
			all, err := store.List(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				if all == nil {
					all = []backup.Stored{}
				}
				return writeAs(cmd.OutOrStdout(), output, all)
			}
			if len(all) == 0 {
				cmd.PrintErrf("no backups in %s\n", store)
				return nil
			}
			return writeBackups(cmd.OutOrStdout(), all, time.Now())
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "format: table or json")
	return cmd
}

func writeBackups(w io.Writer, all []backup.Stored, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tREGION\tTIME\tAGE\tSIZE") // errors are those of Flush
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.Region, s.Time.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(s.Time)), size(s.Size))
	}
	return t.Flush()
}

func newBackupPruneCommand() *cobra.Command {
	var flags backupFlags
	var rule backup.Keep
	var yes, dryRun bool
	var output string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove backups that are not kept any more",
		Long: `Remove backups that are not kept any more: those that neither --keep-count nor --keep-days keeps, by default as
spec.backup.keep of the region file says. In the destination that the region file declares only backups of that
region are removed, in one that is named by --destination those of all. The newest backup of each region always
stays. What is removed is shown first.`,
		Example: `  sudo regiond backup prune --dry-run
  sudo regiond backup prune --destination /mnt/backups --keep-count 7 --keep-days 30`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "table", "json"); err != nil {
				return err
			}
			store, err := flags.store(cmd)
			if err != nil {
				return err
			}
			only := ""
			if flags.destination == "" {
				r, err := flags.declared(cmd)
				if err != nil {
					return err
				}
				if only = r.Name; rule == (backup.Keep{}) {
					rule = keep(r.Spec.Backup)
				}
			}
			if rule.Count <= 0 && rule.Days <= 0 {
				return invalid(errors.New("which backups are kept? Give --keep-count, --keep-days or both"))
			}
			all, err := store.List(cmd.Context())
			if err != nil {
				return err
			}
			now := time.Now()
			old := rule.ExpiredIn(all, only, now)
			if output == "json" {
				err = writeAs(cmd.OutOrStdout(), output, old)
			} else if len(old) == 0 {
				cmd.Printf("nothing to remove in %s: all %d backups are kept\n", store, len(all))
			} else {
				cmd.Printf("To remove from %s, %d of %d backups:\n", store, len(old), len(all))
				err = writeBackups(cmd.OutOrStdout(), old, now)
			}
			if err != nil || dryRun || len(old) == 0 || output == "json" && !yes {
				return err
			}
			if !yes {
				if err := approve(cmd.InOrStdin(), cmd.OutOrStdout(), "Remove these backups?"); err != nil {
					return err
				}
			}
			for _, s := range old {
				if err := store.Remove(cmd.Context(), s.Name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVar(&rule.Count, "keep-count", 0, "keep this many of the newest backups of each region")
	cmd.Flags().IntVar(&rule.Days, "keep-days", 0, "keep backups that are younger")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed and remove nothing")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "format: table or json")
	return cmd
}
