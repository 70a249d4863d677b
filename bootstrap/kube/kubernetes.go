package kube

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanagerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxyapp "k8s.io/kubernetes/cmd/kube-proxy/app"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
)

func run(command *cobra.Command, args []string) int {
	command.SetArgs(args[1:])
	return cli.Run(command)
}

func apiServer(args []string) int { return run(apiserverapp.NewAPIServerCommand(), args) }

func controllerManager(args []string) int {
	return run(controllermanagerapp.NewControllerManagerCommand(), args)
}

func proxy(args []string) int { return run(proxyapp.NewProxyCommand(), args) }

func scheduler(args []string) int { return run(schedulerapp.NewSchedulerCommand(), args) }

func kubelet(args []string) int {
	return run(kubeletapp.NewKubeletCommand(context.Background()), args)
}

// kubectl reads os.Args, which Main has set, for its plugins and verbosity.
func kubectl(args []string) int {
	command := kubectlcmd.NewDefaultKubectlCommand()
	command.SetArgs(args[1:])
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err) // prints it and exits with the error's exit code
	}
	return 0
}
