package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/datadir"
)

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] ARG...",
		Short: "Run kubectl against the region's control plane",
		Long: `Run the kubectl that regiond carries against the region's control plane, with the rights of its
administrator. Everything after kubectl is kubectl's, except --data-dir and --help right behind it.`,
		Example: `  regiond kubectl get servers
  regiond kubectl describe server node1
  regiond kubectl -n kube-system logs deployment/coredns
  regiond kubectl --data-dir /srv/regiond get nodes`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var where dataDirFlags
			switch {
			case len(args) == 0, args[0] == "-h", args[0] == "--help":
				return cmd.Help() // where the control plane is down, too
			case args[0] == "--data-dir" && len(args) == 1:
				return invalid(errors.New("--data-dir needs a directory; usage: " + cmd.UseLine()))
			case args[0] == "--data-dir":
				where.dataDir, args = args[1], args[2:]
			case strings.HasPrefix(args[0], "--data-dir="):
				where.dataDir, args = strings.TrimPrefix(args[0], "--data-dir="), args[1:]
			}
			dataDir, err := where.resolve()
			if err != nil {
				return err
			}
			return execKubectl(dataDir, args)
		},
	}
}

// execKubectl becomes kubectl, so that its exit status, signals and terminal are its own.
func execKubectl(dataDir string, args []string) error {
	kubeconfig := datadir.AdminKubeconfig.In(dataDir)
	f, err := os.Open(kubeconfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unreachable(fmt.Errorf("no control plane was started in %s; regiond run or regiond install starts one", dataDir))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: only root is the region's administrator: sudo regiond kubectl ...", err)
	case err != nil:
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Setenv("KUBECONFIG", kubeconfig); err != nil {
		return err
	}
	// kubectl's cache of the API's discovery would be left in the home directory by a reset.
	if _, ok := os.LookupEnv("KUBECACHEDIR"); !ok {
		if err := os.Setenv("KUBECACHEDIR", datadir.Run.In(dataDir, "kubectl")); err != nil {
			return err
		}
	}
	return syscall.Exec("/proc/self/exe", append([]string{"kubectl"}, args...), os.Environ())
}
