package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/computehost"
)

func newServerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Take servers out of service, and let them back",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newServerRetireCommand(), newServerReadmitCommand())
	return cmd
}

func newServerRetireCommand() *cobra.Command {
	var where dataDirFlags
	var yes, force bool
	var abandon []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "retire NAME",
		Short: "Take a compute host out of its OpenStack cluster and its region",
		Long: `Take a compute host out of its OpenStack cluster and its region: show a plan, ask, then disable its compute
service, shut the server down (its power is cut if it does not), and delete its agents, its compute service with the
mapping to the cell and the resource provider, and the rights of its agent. It refuses while an instance is on the
host, and while that can't be seen: an OpenStack cluster that gave the host compute services and does not answer, is
no longer declared or has lost its secrets may have guests on it.

The Server object stays, with spec.retired: the server is kept off, and nothing is installed on it, also when
it is found again by its BMC. What is on its disk is left alone. When it has left the rack, take it out of
region.yaml and delete it: regiond kubectl delete server NAME. To have it back instead: regiond kubectl
patch server NAME --type merge -p '{"spec":{"retired":false}}'.

It can be run again at any time, and continues where it was interrupted.`,
		Example: `  sudo regiond server retire node7
  sudo regiond server retire node7 --yes
  sudo regiond server retire node7 --force    # its BMC is dead, and you have pulled its plug`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeServers(&where),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, _, err := where.api()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			survey, err := computehost.Inspect(ctx, api, args[0], cluster.Target)
			if err != nil {
				return err
			}
			if err := survey.Abandon(abandon); err != nil {
				return invalid(err)
			}
			if err := survey.Refusal(); err != nil {
				return refused(err)
			}
			out := cmd.OutOrStdout()
			if err := writeRetirement(out, survey); err != nil {
				return err
			}
			if !yes {
				if err := approve(cmd.InOrStdin(), out, "Retire this server?"); err != nil {
					return err
				}
			}
			show := progressPrinter(cmd.ErrOrStderr(), "text", time.Now())
			err = survey.Retire(ctx, computehost.Options{Force: force, Progress: show, OffTimeout: timeout / 2})
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
				err = fmt.Errorf("%w; it took longer than --timeout %s, retry to continue", err, timeout)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s is retired\n", args[0])
			return err
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&force, "force", false, "continue although the machine can't be seen to be off")
	cmd.Flags().StringSliceVar(&abandon, "abandon-guests", nil,
		"OpenStack clusters that do not answer and whose guests on the host may be lost")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long it may take")
	return cmd
}

func writeRetirement(w io.Writer, s *computehost.Survey) error {
	if _, err := fmt.Fprintf(w, "To retire %s:\n", s.Name); err != nil {
		return err
	}
	for _, step := range s.Steps() {
		if _, err := fmt.Fprintln(w, "  - "+step); err != nil {
			return err
		}
	}
	return nil
}
