// Command regiond-node is the agent on the hosts of a region: see package node.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/machine/inventory/lldp"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/node/apply"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/node/tunnel"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: regiond-node <command>

  setup     configure network and host name from the identity, and restore files of the configuration (early at boot)
  run       join the region, hold this host to its configuration, report, keep the heartbeat
  healthy   wait until this boot has proved itself
  status    show what runs here and with which files; -o json for programs
  version   print the version
`

var errUsage = errors.New("usage")

func main() {
	// The journal adds the time, and tells by this variable that it listens (systemd.exec(5)).
	journal := os.Getenv("JOURNAL_STREAM") != ""
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey && journal {
			return slog.Attr{}
		}
		return a
	}}))
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command(ctx, log, os.Args[1], os.Args[2:])
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		log.Error("regiond-node "+os.Args[1]+" failed", slog.Any("error", err))
		stop()
		os.Exit(1)
	}
}

func command(ctx context.Context, log *slog.Logger, name string, args []string) error {
	switch {
	case name == "status":
		return status(ctx, args)
	case len(args) > 0:
		return errUsage
	}
	switch name {
	case "setup":
		return node.Setup(ctx, node.SetupConfig{Root: "/", Log: log})
	case "run":
		return runAgent(ctx, log)
	case "healthy":
		return node.Healthy(ctx, node.HealthyConfig{DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, Observer: observer(), Log: log})
	case "version", "--version":
		_, err := fmt.Println(version)
		return err
	}
	return errUsage
}

// observer of this host.
func observer() node.Observer {
	neighbours := new(lldp.Neighbours)
	return node.Observer{Root: "/", Neighbour: func(ctx context.Context, name string) *inventory.LLDPNeighbour {
		neighbours.Listen(ctx, name)
		return neighbours.Of(name)
	}}
}

func runAgent(ctx context.Context, log *slog.Logger) error {
	a, err := node.New(node.Config{
		DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, RunFile: apply.DefaultRunFile, Root: "/",
		Version: version, Observer: observer(), Services: service.Systemd{}, ReloadNetwork: node.ReloadNetwork,
		Tunnels: tunnel.Prober{Root: "/", Now: time.Now}.Look, Log: log,
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

func status(ctx context.Context, args []string) error {
	asJSON := len(args) == 2 && args[0] == "-o" && args[1] == "json"
	if len(args) > 0 && !asJSON {
		return errUsage
	}
	v, err := node.Look(ctx, node.OverviewConfig{DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, RunFile: apply.DefaultRunFile,
		Root: "/", Observer: observer(), Services: service.Systemd{}})
	if err != nil {
		return err
	}
	if !asJSON {
		return v.Table(os.Stdout, time.Now())
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
