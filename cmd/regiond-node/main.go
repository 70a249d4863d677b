// Command regiond-node is the agent on the hosts of a region: see package node. On a node that is a namespace it is also the first
// process: see package nodeinit.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/machine/inventory/lldp"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/node/apply"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/test/lab/nodeinit"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: regiond-node <command>

  setup     configure network and host name from the identity, and restore files of the configuration (early at boot)
  run       join the region, hold this host to its configuration, report, keep the heartbeat
  healthy   wait until this boot has proved itself
  status    show what runs here and with which files; -o json for programs
  init      be the first process of a node that is a namespace: keep the agent and its services running
  unit      start|stop|restart|reload NAME...: order from init (where systemd runs, use systemctl)
  version   print the version
`

// pidFile of the running agent.
const pidFile = "/run/regiond/agent.pid"

var errUsage = errors.New("usage")

func main() {
	// The journal adds time and host.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey && bootedBySystemd() {
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
	case name == "unit":
		return order(ctx, args)
	case len(args) > 0:
		return errUsage
	}
	_, observer := host()
	switch name {
	case "setup":
		return node.Setup(ctx, node.SetupConfig{Root: "/", Log: log})
	case "run":
		return runAgent(ctx, log)
	case "init":
		return runInit(ctx, log)
	case "healthy":
		return node.Healthy(ctx, node.HealthyConfig{DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, Observer: observer, Log: log})
	case "version", "--version":
		_, err := fmt.Println(version)
		return err
	}
	return errUsage
}

// bootedBySystemd as sd_booted(3) finds out.
func bootedBySystemd() bool {
	st, err := os.Lstat("/run/systemd/system")
	return err == nil && st.IsDir()
}

// host is who manages services here, and how this host is observed.
func host() (apply.Services, node.Observer) {
	neighbours := new(lldp.Neighbours)
	observer := node.Observer{Root: "/", Neighbour: func(ctx context.Context, name string) *inventory.LLDPNeighbour {
		neighbours.Listen(ctx, name)
		return neighbours.Of(name)
	}}
	if bootedBySystemd() {
		return service.Systemd{}, observer
	}
	c := nodeinit.NewClient(nodeinit.Socket)
	observer.Units = c.FailedUnits
	return c, observer
}

func runAgent(ctx context.Context, log *slog.Logger) error {
	services, observer := host()
	if err := os.MkdirAll(filepath.Dir(pidFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(pidFile, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
		return err
	}
	a, err := node.New(node.Config{
		DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, RunFile: apply.DefaultRunFile, Root: "/",
		Version: version, Observer: observer, Services: services, ReloadNetwork: reloadNetwork, Log: log,
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// reloadNetwork has systemd-networkd read its files, and reconfigure the links whose files changed
// (networkctl(1)).
func reloadNetwork(ctx context.Context) error {
	if !bootedBySystemd() {
		return nil // nor does networkd run
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "networkctl", "reload").CombinedOutput()
	if err != nil {
		return fmt.Errorf("networkctl reload: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// agentUnit is the one service that init starts by itself.
const agentUnit = `[Unit]
Description=regiond node agent
[Service]
ExecStart=%s run
Restart=always
RestartSec=1
KillMode=process
`

func runInit(ctx context.Context, log *slog.Logger) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	run := filepath.Dir(nodeinit.Socket)
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err
	}
	s, err := nodeinit.New(nodeinit.Config{Root: "/", RunDir: run, LogDir: "/var/log", Log: log})
	if err != nil {
		return err
	}
	const agent = "regiond-node.service"
	s.Add(agent, fmt.Sprintf(agentUnit, program))
	served := make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() { served <- s.Serve(serving, nodeinit.Socket) }()
	err = s.Start(ctx, agent)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
			served <- nil
		}
	}
	// The agent first, or it would start again what is stopped here.
	ending := context.WithoutCancel(ctx)
	err = errors.Join(err, s.Stop(ending, agent), s.Close(ending))
	stop()
	return errors.Join(err, <-served)
}

func status(ctx context.Context, args []string) error {
	asJSON := len(args) == 2 && args[0] == "-o" && args[1] == "json"
	if len(args) > 0 && !asJSON {
		return errUsage
	}
	services, observer := host()
	v, err := node.Look(ctx, node.OverviewConfig{DataDir: identity.MountPoint, StateFile: node.DefaultStateFile, RunFile: apply.DefaultRunFile,
		Root: "/", Observer: observer, Services: services})
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

func order(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	if bootedBySystemd() {
		return fmt.Errorf("systemd runs here: systemctl %s", strings.Join(args, " "))
	}
	c := nodeinit.NewClient(nodeinit.Socket)
	do := map[string]func(context.Context, string) error{"start": c.Start, "stop": c.Stop, "restart": c.Restart, "reload": c.Reload}[args[0]]
	if do == nil {
		return errUsage
	}
	for _, name := range args[1:] {
		if err := do(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
