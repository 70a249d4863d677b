package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/systemd"
)

func newResetCommand() *cobra.Command {
	var where dataDirFlags
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Tear down the region on this host",
		Long: `Tear down the region on this host: remove what regiond created, and nothing else: the service, the control
plane with all its data, OpenStack's databases, pods, mounts, network devices and files. It prints
first what it would do, and does it once you have typed the region's name.

Servers are left as they are. It does not need the API, and can be run again after an interruption.`,
		Example: `  regiond reset --dry-run
  regiond reset
  regiond reset --data-dir /srv/regiond --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dataDir, err := where.resolve()
			if err != nil {
				return err
			}
			return reset(cmd, dataDir, yes, dryRun)
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done and do nothing")
	return cmd
}

func reset(cmd *cobra.Command, dataDir string, yes, dryRun bool) error {
	if os.Geteuid() != 0 {
		return errors.New("reset needs root: sudo regiond reset ...")
	}
	plan, err := bootstrap.PlanReset(cmd.Context(), dataDir)
	if err != nil {
		return refused(err)
	}
	out := cmd.OutOrStdout()
	if plan.Empty() {
		fmt.Fprintf(out, "nothing of regiond in %s\n", plan.DataDir)
		return nil
	}
	fmt.Fprintf(out, "Region %q in %s. This tears it down:\n", plan.Region, plan.DataDir)
	plan.Print(out)
	if dryRun {
		return nil
	}
	if !yes {
		// Nobody types the region's name by accident on the wrong host.
		name := plan.Region
		if name == "" {
			name = plan.DataDir
		}
		if err := ask(cmd.InOrStdin(), out, "Tear down this region?", name); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	report := func(format string, a ...any) { fmt.Fprintf(out, format+"\n", a...) }
	if err := plan.Execute(cmd.Context(), systemd.Run, log, report); err != nil {
		return err
	}
	fmt.Fprintln(out, "done")
	return nil
}
