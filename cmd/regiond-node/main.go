// Command regiond-node is the agent on installed servers: see package node.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"regiond.dev/regiond/node"
	"regiond.dev/regiond/node/identity"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: regiond-node <command>

  setup     configure network and host name from the identity (early at boot)
  run       join the region, report, keep the heartbeat
  healthy   wait until this boot has proved itself
  version   print the version
`

func main() {
	// The journal adds time and host.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	if len(os.Args) != 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	switch os.Args[1] {
	case "setup":
		err = node.Setup(ctx, node.SetupConfig{Root: "/", Log: log})
	case "run":
		err = runAgent(ctx, log)
	case "healthy":
		err = node.Healthy(ctx, node.HealthyConfig{DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, Observer: node.Observer{Root: "/"}, Log: log})
	case "version", "--version":
		fmt.Println(version)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		log.Error("regiond-node "+os.Args[1]+" failed", slog.Any("error", err))
		stop()
		os.Exit(1)
	}
}

func runAgent(ctx context.Context, log *slog.Logger) error {
	a, err := node.New(node.Config{
		DataDir: identity.MountPoint, StateFile: node.DefaultStateFile,
		Version: version, Observer: node.Observer{Root: "/"}, Log: log,
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
