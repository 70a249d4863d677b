package kube

import (
	"context"
	"fmt"
	"os"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins" // the daemon's plugins
	"github.com/containerd/containerd/v2/cmd/containerd/command"
	ctrapp "github.com/containerd/containerd/v2/cmd/ctr/app"
)

func containerd(args []string) int {
	if err := command.App().Run(context.Background(), args); err != nil {
		fmt.Fprintln(os.Stderr, "containerd:", err)
		return 1
	}
	return 0
}

func ctr(args []string) int {
	if err := ctrapp.New().Run(context.Background(), args); err != nil {
		fmt.Fprintln(os.Stderr, "ctr:", err)
		return 1
	}
	return 0
}
