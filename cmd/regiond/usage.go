package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// explainUsage makes a wrong command line an error that says what would be right, in a command and
// all below it. By itself cobra answers an unknown subcommand with help and success, as if it had
// done what was asked.
func explainUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return invalid(fmt.Errorf("%w; see: %s --help", err, c.CommandPath()))
	})
	switch accepts := cmd.Args; {
	case cmd.HasSubCommands() && !cmd.Runnable():
		cmd.DisableFlagsInUseLine = true
		cmd.Args = cobra.ArbitraryArgs // they reach RunE
		cmd.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			hint := ""
			c.SuggestionsMinimumDistance = 2 // letters; what cobra takes for unknown commands of its root
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
			}
			return invalid(fmt.Errorf("%s has no command %q%s; see: %s --help", c.CommandPath(), args[0], hint, c.CommandPath()))
		}
	case accepts != nil:
		cmd.Args = func(c *cobra.Command, args []string) error {
			if accepts(c, args) == nil {
				return nil
			}
			if len(args) == 0 {
				return invalid(fmt.Errorf("an argument is missing; usage: %s", c.UseLine()))
			}
			return invalid(fmt.Errorf("unexpected arguments for %q: %s; usage: %s", c.CommandPath(), strings.Join(args, " "), c.UseLine()))
		}
	}
	for _, c := range cmd.Commands() {
		explainUsage(c)
	}
}
