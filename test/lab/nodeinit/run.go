package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Where a node's process 1 keeps what ends with the node, and the commands of systemd that it stands in for.
const (
	runDir     = "/run/regiond"
	commandDir = runDir + "/bin"
	// Path finds the commands before those of the node's image, which need systemd.
	Path = searchPath
)

// agent is the one unit that is started by itself, by the unit file of the node's image. It starts all others.
const agent = "regiond-node.service"

// Run is process 1 of a node until the context ends: it keeps the agent and its services running.
// self is the command line by which processes of the node call Command: it is followed by the
// command's name and arguments.
func Run(ctx context.Context, self []string, log *slog.Logger) error {
	if err := writeCommands(commandDir, self); err != nil {
		return err
	}
	s, err := New(Config{Root: "/", RunDir: runDir, LogDir: "/var/log", Log: log})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() { served <- s.Serve(serving, Socket) }()
	if err = s.Start(ctx, agent); err == nil {
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

// writeCommands makes the programs by which the node's processes call Command.
func writeCommands(dir string, self []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name := range commands {
		script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", strings.Join(self, " "), name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}
