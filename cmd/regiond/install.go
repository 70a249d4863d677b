package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/bootstrap/systemd"
	"regiond.dev/regiond/hardware/credentials"
)

func newInstallCommand() *cobra.Command {
	var file, output string
	var check bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install a region's seed host as a systemd service",
		Long: `Install a region's seed host as a systemd service: check the host, copy this program to
` + install.DefaultPaths.Program + ` and the region file to ` + install.DefaultPaths.RegionFile + `, write and start
` + systemd.UnitName + `, and wait until the control plane is ready.

It can be run again: to upgrade regiond, or after anything went wrong. What is in place already is left
alone. A running region is changed by "regiond apply", which shows a plan first.`,
		Example: `  sudo regiond install -f region.yaml
  sudo regiond install -f region.yaml --check        # only check the host

  # Upgrade: the new program installs itself with the file that is in place
  sudo ./regiond install -f /etc/regiond/region.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check {
				return preflightReport(cmd, file, output)
			}
			return installRegion(cmd, file, timeout)
		},
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().BoolVar(&check, "check", false, "check the host, change nothing")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "format of --check: table, json or yaml")
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Minute, "how long to wait until the control plane is ready")
	return cmd
}

func installRegion(cmd *cobra.Command, file string, timeout time.Duration) error {
	started := time.Now()
	doc, data, err := loadChecked(cmd, file)
	if err != nil {
		return err
	}
	r := doc.Region
	if os.Geteuid() != 0 {
		return errors.New("install needs root: sudo regiond install ...")
	}
	if !systemd.Booted() {
		return fmt.Errorf("this host does not run systemd, so no service can be installed; use: regiond run -f %s", file)
	}
	dataDir := r.Spec.ControlPlane.DataDir
	running, err := datadir.LockOwner(dataDir)
	if err != nil {
		return err
	}
	before, err := systemd.Show(cmd.Context(), systemd.Run)
	if err != nil {
		return err
	}
	if running != 0 && !before.Up() {
		return fmt.Errorf("regiond runs on %s already, pid %d, and not as a service; stop it first: kill %d", dataDir, running, running)
	}
	show := progressPrinter(cmd.ErrOrStderr(), "text", started)
	if running == 0 {
		report, err := bootstrap.Preflight(cmd.Context(), r, credentials.Check)
		if err != nil {
			return err
		}
		if err := report.Err(); err != nil {
			return err
		}
		show("preflight: " + report.Summary())
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	if err := install.Install(cmd.Context(), install.Config{
		Paths: install.DefaultPaths, DataDir: dataDir, Program: program, RegionFile: file, Region: data, Systemctl: systemd.Run,
		Report: func(format string, a ...any) { show(fmt.Sprintf(format, a...)) },
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	err = install.WaitReady(ctx, dataDir, before.Invocation, systemd.Run, show)
	var late *install.NotReadyError
	if errors.As(err, &late) {
		return notReady(err)
	}
	return err
}
