package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/openstack"
)

func newConfigValuesCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "values [PATTERN]",
		Short: "List the values that an OpenStack cluster can be given, with meaning and default",
		Long: `List the values that can be set in spec.openstack.clusters[].values and overrides, for a cluster or a node, each
with its default, what it means and what it takes. PATTERN is a part of a value's name, or a shell pattern for it.

Any other option of a service is given as PROJECT.conf.SECTION.OPTION, e.g. nova.conf.DEFAULT.max_concurrent_builds.`,
		Example: `  regiond config values migration
  regiond config values 'nova.*'
  regiond config values -o json | jq -r '.[] | select(.default == true) | .path'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			composer, err := openstack.Default()
			if err != nil {
				return err
			}
			pattern := ""
			if len(args) > 0 {
				pattern = args[0]
			}
			list := composer.Source().ListValues(pattern)
			if len(list) == 0 {
				return fmt.Errorf("no value has %q in its name; all of them: regiond config values", pattern)
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, list)
			}
			return configgen.WriteValues(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return cmd
}
