// Command shim is containerd-shim-runc-v2. It is a separate binary because containerd's plugin
// registry is global and must not contain both the daemon's builtins and the shim's task plugin,
// and because one shim runs per pod: 14 MB instead of 128 MB.
package main

import (
	"context"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin"
	"github.com/containerd/containerd/v2/pkg/shim"
)

func main() { shim.RunShim(context.Background(), manager.NewShimManager("io.containerd.runc.v2")) }
