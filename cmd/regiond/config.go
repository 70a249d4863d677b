package main

import (
	"github.com/spf13/cobra"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show a region with its defaults, the configuration that is made of it, or its schema",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newConfigViewCommand(), newConfigRenderCommand(), newConfigExplainCommand(), newConfigValuesCommand(), newConfigSecretsCommand(), newConfigSchemaCommand())
	return cmd
}

func newConfigViewCommand() *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show a region file with all defaults filled in",
		Long: `Show a region file with all defaults filled in, as regiond will use it. The output is
a region file itself. A file that is not valid is reported as by "regiond validate --offline".`,
		Example: `  # What will regiond make of this file?
  regiond config view -f region.yaml

  # Which range do pods get?
  regiond config view -f region.yaml -o json | jq -r .spec.controlPlane.podCIDR`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "yaml", "json"); err != nil {
				return err
			}
			view := region.ViewYAML
			if output == "json" {
				view = region.ViewJSON
			}
			cmd.SilenceUsage = true
			data, name, err := readRegionFile(cmd, file)
			if err != nil {
				return err
			}
			doc, err := check.Load(data, name)
			if err != nil {
				return err
			}
			region.Default(doc.Region)
			text, err := view(doc.Region)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "format: yaml or json")
	return cmd
}

func newConfigSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of region files",
		Long: `Print the JSON Schema (draft-07) of region files, with which editors complete fields,
show their descriptions and underline mistakes while you type.`,
		Example: `  # For editors with yaml-language-server (VS Code, Neovim, Emacs, ...)
  regiond config schema > region.schema.json
  sed -i '1i # yaml-language-server: $schema=region.schema.json' region.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			schema, err := check.Schema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}
