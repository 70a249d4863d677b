package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/hardware/credentials"
)

func newPreflightCommand() *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether this host can become the seed host of a region",
		Long: `Check whether this host can become the seed host of a region: kernel, control groups, disk,
memory, addresses, ports. Every failed check says what is wrong and how to fix it. Nothing is
changed on the host.

The exit status is 0 when nothing failed, and 1 otherwise; warnings do not count.`,
		Example: `  regiond preflight -f region.yaml
  regiond preflight -f region.yaml -o json | jq '.[] | select(.status == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return preflightReport(cmd, file, output) },
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "format: table, json or yaml")
	return cmd
}

func preflightReport(cmd *cobra.Command, file, output string) error {
	if err := checkFormat(output, "table", "json", "yaml"); err != nil {
		return err
	}
	r, _, err := loadRegion(cmd, file)
	if err != nil {
		return err
	}
	report, err := bootstrap.Preflight(cmd.Context(), r, credentials.Check)
	if err != nil {
		return err
	}
	if output == "table" {
		err = report.Table(cmd.OutOrStdout())
	} else {
		err = writeAs(cmd.OutOrStdout(), output, report)
	}
	if n := len(report.Failed()); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d checks failed", n, len(report)))
	}
	return err
}
