package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/openstack"
)

func newValidateCommand() *cobra.Command {
	var file, output string
	var offline bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a region file and report everything that is wrong with it",
		Long: `Check a region file and report everything that is wrong with it at once: unknown
fields, wrong types, values that contradict each other, options that OpenStack does not
have or values that it would not take, Kustomize patches that fit nothing, and credential
files that are missing or may be read by others. Nothing is changed and no machine is
contacted. Credential files and patches are on the seed host: elsewhere, check --offline.

Each problem is one line, FILE:LINE:COLUMN: FIELD: what is wrong; what would be right.
The exit status is 0 when the file is valid, warnings included, and 3 when it is not.`,
		Example: `  # Check region.yaml on the seed host
  regiond validate -f region.yaml

  # Check on a laptop or in CI, where the files of the seed host are not at hand
  regiond validate -f region.yaml --offline

  # Check what another program writes, for a program to read
  generate-region | regiond validate -f - --offline -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			cmd.SilenceUsage = true // from here on the command line is right and the file may be wrong
			data, name, err := readRegionFile(cmd, file)
			if err != nil {
				return err
			}
			problems, err := openstack.Validate(data, name, offline)
			if err != nil {
				return err
			}
			if output == "json" {
				err = problems.WriteJSON(cmd.OutOrStdout(), name)
			} else {
				err = problems.WriteText(cmd.OutOrStdout())
			}
			if err != nil {
				return fmt.Errorf("writing the report: %w", err)
			}
			if problems.Err() != nil {
				return invalid(errors.New(problems.Summary(name)))
			}
			if output == "text" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), problems.Summary(name))
			}
			return err
		},
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format of the report: text or json")
	cmd.Flags().BoolVar(&offline, "offline", false, "do not look for credential files and patches on this machine")
	return cmd
}
