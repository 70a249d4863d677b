package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/components/plan"
)

// errPlanDiffers refuses to apply changes that nobody has seen.
var errPlanDiffers = refused(errors.New("the region or its declaration has changed since the plan was made; nothing was changed"))

func newApplyCommand() *cobra.Command {
	var a applyFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply a region file to the running region, and wait until its OpenStack clusters are ready",
		Long: `Apply a region file to the running region: show the plan, as "regiond plan" does, ask, and store the
declaration with the operator's Kustomize patches; regiond's controllers roll it out, gate by gate.
Before it is stored, the plan is made again: changes that were not shown are not applied. --plan takes the digest
that "regiond plan" prints and applies exactly that plan, without asking.

It is the way to change any field of the file. The plan says when each change takes effect: at once, when
regiond has restarted, which it does by itself, or when a server is next installed. The installed service gets
the file, too, so that its next start has what was applied.

The patches are the files *.yaml in spec.openstack.clusters[].patchesDir, or in
/etc/regiond/openstack/NAME if that folder is there.

A cluster runs the templates, manifests and images of its last apply: an apply gives it those of this
regiond and the images that were built last, and nothing else does. With --cluster they reach one
cluster first, e.g. one for staging.

Hosts change one by one at first, then several at a time, and no more after a failure. A change that
restarts Open vSwitch reaches a host when it has no guests, or with --disrupt.

A cluster that is no longer declared is removed with --allow-delete only. Its data stays on the seed
host's disk, and its passwords and keys in its Secret: declared again, it has both back.

It can be run again at any time. An apply of what is there already writes nothing and restarts nothing.`,
		Example: `  sudo regiond apply -f region.yaml
  sudo regiond apply -f region.yaml --yes --timeout 20m    # in CI

  # What was reviewed, and nothing else
  sudo regiond plan -f region.yaml -o json > plan.json
  sudo regiond apply -f region.yaml --plan "$(jq -r .digest plan.json)"

  sudo regiond apply -f region.yaml --cluster staging      # the others later
  sudo regiond apply -f region.yaml --yes --wait=false; regiond status --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	addRegionFileFlag(cmd, &a.file)
	addClusterFlag(cmd, &a.cluster)
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&a.plan, "plan", "", "digest of the plan to apply; any other plan is refused")
	cmd.Flags().BoolVar(&a.allowDelete, "allow-delete", false, "remove OpenStack clusters that are no longer declared")
	cmd.Flags().BoolVar(&a.disrupt, "disrupt", false, "cut guests off from their networks while their hosts change, rather than wait until hosts have none")
	cmd.Flags().BoolVar(&a.wait, "wait", true, "wait until every OpenStack cluster is ready")
	cmd.Flags().DurationVar(&a.timeout, "timeout", 15*time.Minute, "how long to wait")
	return cmd
}

type applyFlags struct {
	file, cluster, plan             string
	yes, allowDelete, disrupt, wait bool
	timeout                         time.Duration
}

func (a applyFlags) run(cmd *cobra.Command) error {
	if a.file == "-" && !a.yes && a.plan == "" {
		return invalid(errors.New("the region file comes from standard input, where the answer would come from: add --yes or --plan"))
	}
	planned, err := planRegion(cmd, a.file, a.cluster)
	if err != nil {
		return err
	}
	api, p := planned.api, planned.Plan
	out := cmd.OutOrStdout()
	if err := p.WriteText(out); err != nil {
		return err
	}
	if err := p.Allowed(a.allowDelete); err != nil {
		return refused(err)
	}
	if err := a.approved(cmd, p); err != nil {
		return err
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
			if err := plan.Disrupt(ctx, api, c.Cluster); err != nil {
				return err
			}
		}
	}
	for _, name := range p.Removed() {
		show("OpenStackCluster " + name + " is being removed")
	}
	if a.cluster == "" {
		if err := keepForService(a.file, planned, show); err != nil {
			return err
		}
	}
	if !a.wait {
		return nil
	}
	if paths := p.AtStart(); len(paths) > 0 {
		show("regiond restarts for " + strings.Join(paths, ", ") + "; servers, pods and guests run on meanwhile")
		if err := awaitRestart(ctx, daemon.SocketPath(planned.region.Spec.ControlPlane.DataDir), started); err != nil {
			return notReady(err)
		}
		show("regiond has restarted")
	}
	var names []string
	for _, c := range p.Clusters {
		names = append(names, c.Cluster)
	}
	if err := plan.WaitReady(ctx, api, names, p.Removed(), show); err != nil {
		return notReady(fmt.Errorf("the region is not as declared after %s: %w", time.Since(started).Round(time.Second), err))
	}
	return nil
}

// approved is nil if a plan is the one that was reviewed, or that was shown and agreed to and is
// still what would be done.
func (a applyFlags) approved(cmd *cobra.Command, p *plan.Plan) error {
	switch digest := p.Digest(); {
	case a.plan != "" && a.plan != digest:
		return fmt.Errorf("%w; the plan is now %s, not %s; review it above and pass --plan %s", errPlanDiffers, digest, a.plan, digest)
	case a.plan != "" || a.yes || p.Empty() && !a.disrupt:
		return nil
	}
	if err := approve(cmd.InOrStdin(), cmd.OutOrStdout(), "Apply these changes?"); err != nil {
		return err
	}
	again, err := planRegion(cmd, a.file, a.cluster)
	if err == nil && again.Digest() != p.Digest() {
		err = fmt.Errorf("%w; run it again to see the new plan", errPlanDiffers)
	}
	return err
}

// keepForService gives the installed service the file that was applied: it declares what is in its
// own file whenever it starts, and would undo the rest otherwise.
func keepForService(file string, planned *plannedRegion, show func(string)) error {
	given, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	paths := install.DefaultPaths
	err = install.Config{
		Paths: paths, DataDir: planned.region.Spec.ControlPlane.DataDir, RegionFile: given, Region: planned.data,
		Report: func(format string, a ...any) { show(fmt.Sprintf(format, a...)) },
	}.KeepRegionFile()
	if errors.Is(err, install.ErrEdited) {
		show(fmt.Sprintf("warning: the service reads %s, which somebody edited: when it starts again, that file's declaration replaces this one; "+
			"apply it (regiond apply -f %s), or move it away and apply this one again", paths.RegionFile, paths.RegionFile))
		return nil
	}
	return err
}

// restartPatience is how long apply waits for regiond to get over what keeps it from restarting,
// e.g. the file that apply has just replaced.
const restartPatience = 10 * time.Second

// awaitRestart waits until the regiond behind a socket was started after a time and is ready.
func awaitRestart(ctx context.Context, socket string, after time.Time) error {
	t := time.NewTicker(500 * time.Millisecond)
	defer t.Stop()
	var blocked time.Time
	for {
		s, err := daemon.Fetch(ctx, socket)
		switch {
		case err == nil && s.Started.After(after) && s.Ready:
			return nil
		case err != nil || s.Waiting == "":
			blocked = time.Time{}
		case blocked.IsZero():
			blocked = time.Now()
		case time.Since(blocked) > restartPatience:
			return fmt.Errorf("stored, and not in effect yet: %s", s.Waiting)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stored, and regiond has not restarted for it in time (%w); see: regiond status", ctx.Err())
		case <-t.C:
		}
	}
}
