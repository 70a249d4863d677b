// Command regiond turns racks of servers into a cloud region. It is also, by the name it is called
// by, every component of the control plane that it runs (package bootstrap/kube).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"regiond.dev/regiond/bootstrap/kube"
)

// version is set by the linker.
var version = "dev"

func main() {
	// `regiond kubectl` is a command of ours: it finds the region's kubeconfig first.
	if !(len(os.Args) > 1 && os.Args[1] == "kubectl") && kube.Main(os.Args) {
		return
	}
	// Linked components have put flags of theirs (--version, --v) on the process' own flag set, which
	// cobra would offer for every command.
	pflag.CommandLine = pflag.NewFlagSet("regiond", pflag.ExitOnError)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// From the first signal on the default holds: a second Ctrl-C ends a stop that takes too long.
	context.AfterFunc(ctx, stop)
	err := newRootCommand().ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errChanges) && !errors.Is(err, errNotReady) { // the output of these was the message
		fmt.Fprintln(os.Stderr, "regiond:", err)
	}
	os.Exit(exitStatus(err))
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "regiond",
		Short: "Turn racks of servers into a cloud region",
		Long: `regiond turns racks of servers into a cloud region, declared in one file, region.yaml.

On the seed host it runs an embedded Kubernetes control plane. It discovers, installs and manages the
servers of the region through their BMCs.

` + exitHelp,
		Example: `  regiond validate -f region.yaml    # is the file right?
  regiond preflight -f region.yaml   # is this host fit?
  regiond install -f region.yaml     # as a service; or: regiond run -f region.yaml
  regiond status --watch`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true, // main prints them, once
		SilenceUsage:  true, // all flags would hide the failure
	}
	cobra.EnableTraverseRunHooks = true // those of image and lab do not replace the root's
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if slices.Contains(downloads, cmd.CommandPath()) {
			return nil
		}
		return ignoreProxy()
	}
	root.SetVersionTemplate("regiond {{.Version}}\n")
	root.AddCommand(
		newValidateCommand(), newConfigCommand(), newPreflightCommand(),
		newRunCommand(), newInstallCommand(), newResetCommand(),
		newPlanCommand(), newApplyCommand(),
		newStatusCommand(), newDiagnoseCommand(), newServerCommand(), newHostCommand(), newOpenStackCommand(), newSecretCommand(), newCertificateCommand(), newMetricsCommand(), newKubectlCommand(),
		newBackupCommand(), newImageCommand(), newLabCommand(), newVersionCommand(),
	)
	completeOutput(root)
	explainUsage(root)
	return root
}
