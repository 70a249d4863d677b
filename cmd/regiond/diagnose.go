package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/status/diagnose"
)

func newDiagnoseCommand() *cobra.Command {
	var where dataDirFlags
	cmd := &cobra.Command{
		Use:   "diagnose [FILE]",
		Short: "Collect what support needs into one file, without secrets",
		Long: `Collect what support needs into one file: status, objects of Kubernetes, the last part of all logs, and the
state of this host. It works while the control plane is down, and the file's manifest.json says what could not be
collected.

Secrets are not in it: neither objects of that kind, nor keys, nor databases. Where a log or an object quotes a
secret of the region, or what looks like one, [removed] stands instead. If the region's secrets can't be read, so
that it is not known what to remove, objects and logs of pods are left out. Names and addresses of servers and
users' virtual machines are in it: read it before you give it away.`,
		Example: `  sudo regiond diagnose                     # regiond-diagnose-HOST-TIME.tar.gz in this folder
  sudo regiond diagnose /tmp/case-42.tar.gz
  sudo regiond diagnose - | ssh admin@workstation 'cat >case-42.tar.gz'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dataDir, err := where.resolve()
			if err != nil {
				return err
			}
			host, err := os.Hostname()
			if err != nil {
				return err
			}
			started := time.Now()
			show := progressPrinter(cmd.ErrOrStderr(), "text", started)
			c := diagnose.Config{DataDir: dataDir, Version: version, Host: host, Now: time.Now, Run: runProgram, Report: show}
			file := fmt.Sprintf("regiond-diagnose-%s-%s.tar.gz", host, started.UTC().Format("20060102T150405Z"))
			if len(args) > 0 {
				file = args[0]
			}
			m, err := writeBundle(cmd.Context(), cmd.OutOrStdout(), file, c)
			if err != nil {
				return err
			}
			for _, x := range m.Missing {
				cmd.PrintErrf("left out: %s: %s\n", x.What, x.Why)
			}
			if file != "-" {
				cmd.Printf("%s: %d files; manifest.json in it says what they are\n", file, len(m.Entries))
			}
			return nil
		},
	}
	where.add(cmd)
	return cmd
}

// writeBundle to a new file that only root may read, or to standard output.
func writeBundle(ctx context.Context, out io.Writer, file string, c diagnose.Config) (diagnose.Manifest, error) {
	if file == "-" {
		return diagnose.Write(ctx, out, c)
	}
	f, err := atomicfile.Create(file)
	if err != nil {
		return diagnose.Manifest{}, fmt.Errorf("%s can't be written: %w", file, err)
	}
	m, err := diagnose.Write(ctx, f, c)
	if err != nil {
		return m, errors.Join(fmt.Errorf("%s: %w", file, err), f.Discard())
	}
	return m, f.Commit(0o600)
}

// runProgram of the host; its error says what the program said.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	var stderr strings.Builder
	c := exec.CommandContext(ctx, name, args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out, err
}
