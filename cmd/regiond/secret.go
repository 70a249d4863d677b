package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/ownsecret"
)

func newSecretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Secrets of your own for an OpenStack cluster",
		Long: `Secrets of your own for an OpenStack cluster, e.g. the password of an LDAP server. They are kept with those
that regiond generates, encrypted at rest, and never shown. In region.yaml an option is given one by its name:

  values:
    keystone:
      conf:
        ldap:
          password: {secret: ldap-password}`,
		Example: `  regiond secret set general ldap-password --from-file ldap.txt
  regiond secret list general`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newSecretSetCommand(), newSecretListCommand())
	return cmd
}

func newSecretSetCommand() *cobra.Command {
	var where dataDirFlags
	var file string
	cmd := &cobra.Command{
		Use:   "set CLUSTER NAME",
		Short: "Add or replace a secret, from a file or standard input",
		Long: `Add a secret to an OpenStack cluster, or replace it. It is read from a file or from standard input, so that it
is in no command line and no shell's history. It is one line: the line break at its end is not part of it.

Services that have the secret in their configuration are restarted with the new one.`,
		Example: `  regiond secret set general ldap-password --from-file ldap.txt
  pass show ldap | sudo regiond secret set general ldap-password --from-file -`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := readSecret(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			api, c, err := where.cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := ownsecret.Settable(c, args[1]); err != nil {
				return invalid(err)
			}
			changed, err := ownsecret.Set(cmd.Context(), api, c.Name, args[1], value)
			if err != nil {
				return err
			}
			what := "has this value already"
			if changed {
				what = "is set"
			}
			cmd.Printf("Secret %s of OpenStack cluster %s %s.\n", args[1], c.Name, what)
			return nil
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&file, "from-file", "", "file with the secret, - for standard input")
	return cmd
}

// readSecret reads a secret from a file without the line break at its end. Errors do not show it.
func readSecret(in io.Reader, file string) (string, error) {
	name := "standard input"
	if file == "" {
		return "", invalid(errors.New("--from-file is missing: name the file with the secret, or - for standard input"))
	}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", invalid(err)
		}
		defer f.Close()
		in, name = f, file
	}
	b, err := io.ReadAll(io.LimitReader(in, ownsecret.MaxSize+1))
	if err != nil {
		return "", fmt.Errorf("read the secret from %s: %w", name, err)
	}
	if len(b) > ownsecret.MaxSize {
		return "", invalid(fmt.Errorf("%s has more than the %d bytes of a secret", name, ownsecret.MaxSize))
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" {
		return "", invalid(errors.New(name + " is empty"))
	}
	return value, nil
}

func newSecretListCommand() *cobra.Command {
	var where dataDirFlags
	var output string
	cmd := &cobra.Command{
		Use:   "list CLUSTER",
		Short: "List the names of the secrets that were set",
		Example: `  regiond secret list general
  regiond secret list general -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			api, c, err := where.cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			names, err := ownsecret.List(cmd.Context(), api, c.Name)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, names)
			}
			for _, name := range names {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return nil
		},
	}
	where.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return cmd
}
