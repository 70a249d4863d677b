package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/region/host"
)

func newHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Let machines join that regiond did not install",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newHostEnrollCommand(), newHostRemoveCommand())
	return cmd
}

func newHostEnrollCommand() *cobra.Command {
	var where dataDirFlags
	var profile, file string
	var again bool
	cmd := &cobra.Command{
		Use:   "enroll NAME",
		Short: "Create a host and the identity with which its machine joins",
		Long: `Create a Host for a machine that regiond did not install, and write the machine's identity to a file.
The file holds a join token that is valid for 24 hours and for one machine: carry it to ` + identity.MountPoint + `/` + identity.File + `
there (mode 0600) and start the agent, regiond-node run. Whoever has the file can join in its place.

Run again before the machine has joined, it creates a new token, and the old one is no longer valid.`,
		Example: `  regiond host enroll node7 --profile compute --identity node7.json
  regiond host enroll node7 --profile compute --identity node7.json --again   # its disk was lost`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			api, conf, err := where.api()
			if err != nil {
				return err
			}
			if file == "" {
				file = args[0] + ".json"
			}
			// Before the effect: a token that can't be kept is of no use.
			out, err := atomicfile.Create(file)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, out.Discard()) }()
			id, err := enrollment.Enroll(cmd.Context(), api, enrollment.Enrollment{
				Name: args[0], Profile: profile, Again: again, KubernetesURL: conf.Host, CA: conf.CAData, Now: time.Now})
			if err != nil {
				return err
			}
			content, err := json.MarshalIndent(id, "", "  ")
			if err != nil {
				return err
			}
			if _, err := out.Write(append(content, '\n')); err != nil {
				return err
			}
			if err := out.Commit(0o600); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "host %s may join; its identity is in %s\n", args[0], file)
			return err
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&profile, "profile", "", "profile of region.yaml whose configuration the host is to have")
	cmd.Flags().StringVar(&file, "identity", "", "file to write the identity to (default NAME.json)")
	cmd.Flags().BoolVar(&again, "again", false, "the host has joined before: replace its Host and rights")
	return cmd
}

func newHostRemoveCommand() *cobra.Command {
	var where dataDirFlags
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a host that was enrolled",
		Long: `Remove a host that was enrolled, with its rights, its configuration and its join token. What runs on the
machine keeps running. Hosts of servers that regiond installed go with their servers. It refuses while an
OpenStack cluster has, or may have, guests or services on the host: regiond server retire NAME removes those.`,
		Example: `  regiond host remove node7`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, _, err := where.api()
			if err != nil {
				return err
			}
			survey, err := computehost.Inspect(cmd.Context(), api, args[0], cluster.Target)
			if err != nil {
				return err
			}
			if err := survey.Removable(); err != nil {
				return refused(err)
			}
			if err := host.Unenroll(cmd.Context(), api, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "host %s removed\n", args[0])
			return err
		},
	}
	where.add(cmd)
	return cmd
}
