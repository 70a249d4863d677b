package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// formats are named in the help of -o, "table, json or yaml".
var formats = regexp.MustCompile(`\b(table|text|json|yaml)\b`)

// completeOutput lets shells complete -o and files of -f in a command and all below it. The formats
// are read from the help, so that they can't differ from it.
func completeOutput(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("output"); f != nil {
		all := formats.FindAllString(f.Usage, -1)
		// Fails for a flag that does not exist or was registered before; neither can be.
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
	}
	if f := cmd.Flags().Lookup("file"); f != nil && strings.Contains(f.Usage, "region file") {
		_ = cmd.MarkFlagFilename("file", "yaml", "yml") // the flag exists
	}
	if cmd.Flags().Lookup("data-dir") != nil {
		_ = cmd.MarkFlagDirname("data-dir") // the flag exists
	}
	for _, c := range cmd.Commands() {
		completeOutput(c)
	}
}
