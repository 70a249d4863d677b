package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"
)

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of regiond and of the Kubernetes it carries",
		Example: `  regiond version
  regiond version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version    string `json:"version"`
				Kubernetes string `json:"kubernetes"`
				Go         string `json:"go"`
				Platform   string `json:"platform"`
			}{version, kubeversion.Get().GitVersion, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if err := checkFormat(output, "text", "json", "yaml"); err != nil {
				return err
			}
			if output != "text" {
				return writeAs(cmd.OutOrStdout(), output, v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "regiond %s (Kubernetes %s, %s, %s)\n", v.Version, v.Kubernetes, v.Go, v.Platform)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text, json or yaml")
	return cmd
}
