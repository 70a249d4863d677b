package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/service"
)

func newOpenStackCommand() *cobra.Command {
	var where dataDirFlags
	var name string
	cmd := &cobra.Command{
		Use:   "openstack [--cluster NAME] -- ARG...",
		Short: "Run OpenStack's own client as the cloud's administrator",
		Long: `Run OpenStack's own client in the control plane, as the administrator of an OpenStack cluster. Everything
after -- is the client's. Standard input, output and exit status are its own; without arguments it is
interactive. Its password comes from a file in its pod and is in no command line.`,
		Example: `  regiond openstack -- server list --all-projects
  regiond openstack --cluster lab -- compute service list
  regiond openstack -- image create --disk-format raw --file /dev/stdin tiny < tiny.img
  eval "$(sudo regiond openstack rc)"    # for a client of your own`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
				return errors.New("the client's arguments come after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			_, c, err := where.cluster(cmd.Context(), name)
			if err != nil {
				return err
			}
			dataDir, err := where.resolve()
			if err != nil {
				return err
			}
			exec := []string{"exec", "--namespace", openstack.Namespace(c.Name), "--container", service.ClientWorkload, "--stdin"}
			if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
				exec = append(exec, "--tty")
			}
			return execKubectl(dataDir, append(append(exec, "deployment/"+service.ClientWorkload, "--", "openstack"), args...))
		},
	}
	where.add(cmd)
	cmd.PersistentFlags().StringVar(&name, "cluster", "", "OpenStack cluster (default: the only one)")
	cmd.AddCommand(newOpenStackRCCommand(&name))
	return cmd
}

func newOpenStackRCCommand(name *string) *cobra.Command {
	var where dataDirFlags
	cmd := &cobra.Command{
		Use:   "rc",
		Short: "Print the environment for an OpenStack client of your own",
		Long: `Print shell commands that set the environment by which OpenStack's clients and libraries log in as the
administrator of an OpenStack cluster. The password is among them: mind where the output goes.`,
		Example: `  eval "$(sudo regiond openstack rc)" && openstack server list
  sudo regiond openstack rc --cluster lab > ~/lab.rc`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, c, err := where.cluster(cmd.Context(), *name)
			if err != nil {
				return err
			}
			secrets, err := plan.Secrets(cmd.Context(), api, c.Name)
			if err != nil {
				return err
			}
			if secrets == nil {
				return fmt.Errorf("OpenStack cluster %s has no secrets yet; see: regiond status", c.Name)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "# Administrator of the OpenStack cluster %s. Keep this secret.\n%s", c.Name, cluster.Admin(c, secrets).Shell())
			return err
		},
	}
	where.add(cmd)
	return cmd
}
