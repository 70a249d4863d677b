package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

// errDeclined ends a command that the operator did not want after all.
var errDeclined = errors.New("nothing was changed")

func newApplyCommand() *cobra.Command {
	var a applyFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply a region file to the running region, and wait until its OpenStack clusters are ready",
		Long: `Apply a region file to the running region: show the plan, as "regiond plan" does, ask, and store the
declaration with the operator's Kustomize patches; regiond's controllers roll it out, gate by gate.
The patches are the files *.yaml in spec.openstack.clusters[].patchesDir, or in
/etc/regiond/openstack/NAME if that folder is there.

A cluster runs the templates, manifests and images of its last apply: an apply gives it those of this
regiond and the images that were built last, and nothing else does. With --cluster they reach one
cluster first, e.g. one for staging.

Hosts change one by one at first, then several at a time, and no more after a failure. A change that
restarts Open vSwitch reaches a host when it has no guests, or with --disrupt.

A cluster that is no longer declared is removed with --allow-delete only. Its data stays on the seed
host's disk, and its passwords and keys in its Secret: declared again, it has both back. An apply of what is there already writes nothing and restarts nothing. It can be run again
at any time.`,
		Example: `  sudo regiond apply -f region.yaml
  sudo regiond apply -f region.yaml --yes --timeout 20m    # in CI
  sudo regiond apply -f region.yaml --cluster staging      # the others later
  sudo regiond apply -f region.yaml --yes --wait=false; regiond status --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	addRegionFileFlag(cmd, &a.file)
	addClusterFlag(cmd, &a.cluster)
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&a.allowDelete, "allow-delete", false, "remove OpenStack clusters that are no longer declared")
	cmd.Flags().BoolVar(&a.disrupt, "disrupt", false, "cut guests off from their networks while their hosts change, rather than wait until hosts have none")
	cmd.Flags().BoolVar(&a.wait, "wait", true, "wait until every OpenStack cluster is ready")
	cmd.Flags().DurationVar(&a.timeout, "timeout", 15*time.Minute, "how long to wait")
	return cmd
}

type applyFlags struct {
	file, cluster                   string
	yes, allowDelete, disrupt, wait bool
	timeout                         time.Duration
}

func (a applyFlags) run(cmd *cobra.Command) error {
	if a.file == "-" && !a.yes {
		return errors.New("the region file comes from standard input, where the answer would come from: add --yes")
	}
	api, r, p, err := planRegion(cmd, a.file, a.cluster)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if err := p.WriteText(out); err != nil {
		return err
	}
	if err := p.Allowed(a.allowDelete); err != nil {
		return err
	}
	if !a.yes && (!p.Empty() || a.disrupt) {
		if err := approve(cmd.InOrStdin(), out); err != nil {
			return err
		}
	}
	started := time.Now()
	show := progressPrinter(cmd.ErrOrStderr(), "text", started)
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	defer cancel()
	written, err := p.Declare(ctx, api)
	for _, w := range written {
		show("wrote " + w.String())
	}
	if err != nil {
		return err
	}
	if a.disrupt {
		for _, c := range p.Clusters {
			if err := rollout.Disrupt(ctx, api, c.Cluster); err != nil {
				return err
			}
		}
	}
	for _, name := range p.Removed() {
		show("OpenStackCluster " + name + " is being removed")
	}
	if note := installedDiffers(cmd, a.file, r); note != "" {
		show(note)
	}
	if !a.wait {
		return nil
	}
	var names []string
	for _, c := range p.Clusters {
		names = append(names, c.Cluster)
	}
	if err := rollout.Await(ctx, api, names, p.Removed(), show); err != nil {
		return fmt.Errorf("the region is not as declared after %s: %w", time.Since(started).Round(time.Second), err)
	}
	return nil
}

// approve asks on a terminal. Without one nobody can answer, and nothing is done.
func approve(in io.Reader, out io.Writer) error {
	f, isFile := in.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return errors.New("standard input is no terminal to ask on: add --yes to do this")
	}
	if _, err := fmt.Fprint(out, "\nDo this? Only \"yes\" does. "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != "yes" {
		return errDeclined
	}
	return nil
}

// installedDiffers warns of a service that would undo what was applied when it starts again, since it reads another file.
func installedDiffers(cmd *cobra.Command, file string, r *region.Region) string {
	path := install.DefaultPaths.RegionFile
	if abs, err := filepath.Abs(file); err != nil || abs == path {
		return ""
	}
	installed, _, err := loadRegion(cmd, path)
	if err != nil || installed.Name != r.Name || installed.Spec.ControlPlane.DataDir != r.Spec.ControlPlane.DataDir {
		return "" // not this region's, or there is none
	}
	a, err := region.ViewJSON(installed)
	if err != nil {
		return ""
	}
	b, err := region.ViewJSON(r)
	if err != nil || string(a) == string(b) {
		return ""
	}
	return fmt.Sprintf("note: the service reads %s, which differs: when it starts again, what is not below spec.openstack comes from there; "+
		"to keep what was applied now: regiond install -f %s", path, file)
}
