package main

import (
	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/openstack"
)

func newConfigExplainCommand() *cobra.Command {
	var what configFlags
	var node, output string
	cmd := &cobra.Command{
		Use:   "explain FILE SECTION.OPTION",
		Short: "Show where an option of a configuration file comes from",
		Long: `Show where an option of a rendered file comes from: its value, the line of the template, the values of the tree
that it is made of, the layer and place that gave each of them, and what weaker layers said.

FILE is a path or the end of one, e.g. nova.conf. Without --node it is a file of pods. Of files that are not
sections of options, e.g. libvirtd.conf, name the first word of a line alone.`,
		Example: `  regiond config explain nova.conf libvirt.virt_type --node node1
  regiond config explain keystone.conf token.expiration
  regiond config explain nova.conf DEFAULT.cpu_allocation_ratio --node node1 -o json | jq -r '.lines[].values[].place'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			if node != "" {
				what.nodes = []string{node}
			}
			p, err := what.load(cmd)
			if err != nil {
				return err
			}
			e, err := p.Explain(node, args[0], args[1])
			if err != nil {
				return err
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, e)
			}
			return e.WriteText(cmd.OutOrStdout())
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			composer, err := openstack.Default()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return composer.Source().Files(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	what.add(cmd)
	cmd.Flags().StringVar(&node, "node", "", "node whose file it is (default: a file of pods)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	_ = cmd.RegisterFlagCompletionFunc("node", what.completeNodes) // fails for a flag that does not exist
	return cmd
}
