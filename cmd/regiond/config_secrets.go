package main

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
)

func newConfigSecretsCommand() *cobra.Command {
	var generate bool
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "List the secrets that an OpenStack cluster has",
		Long: `List the passwords and keys of an OpenStack cluster, and what each must be. regiond generates them, unless the
cluster's secrets.source names a store of the External Secrets operator: then an entry of the store has all of
them, as one JSON object. --generate prints such an object with new secrets: mind where the output goes.`,
		Example: `  regiond config secrets
  regiond config secrets --generate | vault kv put secret/openstack-general/openstack-secrets -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			composer, err := openstack.Default()
			if err != nil {
				return err
			}
			declared := composer.Source().Secrets()
			if generate {
				tree, _, err := secrets.Generate(declared, nil, nil, rand.Reader)
				if err != nil {
					return err
				}
				return writeAs(cmd.OutOrStdout(), "json", tree)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SECRET\tIS")
			for _, path := range slices.Sorted(maps.Keys(declared)) {
				fmt.Fprintf(w, "%s\t%s\n", path, declared[path].Form())
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&generate, "generate", false, "print an object with new secrets, in clear")
	return cmd
}
