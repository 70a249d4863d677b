package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/test/lab"
	"regiond.dev/regiond/test/lab/nodeinit"
)

// nodeCommand runs what stands in for a command of systemd on a namespace node.
const nodeCommand = "node-command"

// newLabProcesses are the lab's own processes; `lab up` starts them.
func newLabProcesses(f *labFlags) []*cobra.Command {
	var kvm bool
	hardware := &cobra.Command{
		Use: "hardware", Short: "The lab's rack (started by lab up)", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			return l.RunRack(cmd.Context(), kvm, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	hardware.Flags().BoolVar(&kvm, "kvm", false, "run the virtual servers on KVM")
	seed := &cobra.Command{
		Use: "seed", Short: "The lab's seed host (started by lab up)", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			return l.EnterSeed([]string{"regiond", "lab", "init"})
		},
	}
	initCommand := &cobra.Command{
		Use: "init", Short: "The seed host's first process", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lab.RunInit(cmd.Context(), []string{"/proc/self/exe", "run", "-f", lab.SeedRegionFile})
		},
	}
	node := &cobra.Command{
		Use: "node NAME", Short: "A namespace node (started by lab up)", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			if err := l.EnterNode(args[0]); err != nil {
				return err
			}
			return nodeinit.Run(cmd.Context(), []string{"/proc/1/exe", "lab", nodeCommand}, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	command := &cobra.Command{
		Use: nodeCommand + " NAME [ARG...]", Short: "A command of systemd, on a namespace node", Hidden: true, DisableFlagParsing: true,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return nodeinit.Command(cmd.Context(), args[0], args[1:], cmd.OutOrStdout())
		},
	}
	bmc := &cobra.Command{
		Use: "bmc MACHINE ACTION", Short: "Speak to a BMC (started by lab power)", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			state, err := l.Power(cmd.Context(), args[0], args[1])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), state)
			}
			return err
		},
	}
	return []*cobra.Command{hardware, seed, initCommand, node, command, bmc}
}
