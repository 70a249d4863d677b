package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/status"
)

// errNotReady makes the exit status that of a region that is not ready, without a message: the
// status was the message.
var errNotReady = errors.New("the region is not ready")

func newStatusCommand() *cobra.Command {
	var where dataDirFlags
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the control plane, servers and hosts of the region",
		Long: `Show the control plane, servers and hosts of the region, and what is awaited since when. It works
while the control plane is down and then says which component is, and where its log is.

The exit status is 0 when the control plane and every server are ready, 4 when the control plane is not,
and 5 when something else is not.`,
		Example: `  regiond status
  regiond status --watch
  regiond status -o json | jq -r '.servers[] | select(.ready | not) | .name + ": " + .message'
  until regiond status >/dev/null; do sleep 5; done`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "table", "json", "yaml"); err != nil {
				return err
			}
			dataDir, err := where.resolve()
			if err != nil {
				return err
			}
			if watch {
				return watchStatus(cmd, dataDir, output)
			}
			r, err := writeStatus(cmd.Context(), cmd.OutOrStdout(), dataDir, output)
			switch {
			case err == nil && !r.ControlPlane.Ready:
				err = unreachable(errNotReady)
			case err == nil && !r.Ready:
				err = notReady(errNotReady)
			}
			return err
		},
	}
	where.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "format: table, json or yaml")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	return cmd
}

func writeStatus(ctx context.Context, w io.Writer, dataDir, output string) (status.Region, error) {
	r := status.Build(status.Collect(ctx, dataDir, datadir.AdminKubeconfig.In(dataDir)))
	if output == "table" {
		return r, r.Table(w, time.Now())
	}
	return r, writeAs(w, output, r)
}

// watchStatus redraws a terminal, and otherwise writes a new document after each change.
func watchStatus(cmd *cobra.Command, dataDir, output string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	f, isFile := out.(*os.File)
	redraw := output == "table" && isFile && term.IsTerminal(int(f.Fd()))
	t := time.NewTicker(2 * time.Second)
	defer t.Stop()
	var last []byte
	for {
		var b bytes.Buffer
		if _, err := writeStatus(ctx, &b, dataDir, output); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		var err error
		switch {
		case redraw:
			// Home, text, then clear what the last one had more: no flicker (ECMA-48, CUP and ED).
			_, err = fmt.Fprintf(out, "\x1b[H%s\x1b[J", bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\x1b[K\n")))
		case !bytes.Equal(b.Bytes(), last):
			if output == "yaml" && last != nil {
				_, err = fmt.Fprintln(out, "---")
			}
			if err == nil {
				_, err = out.Write(b.Bytes())
			}
			last = b.Bytes()
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
