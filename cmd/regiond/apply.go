package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// errPlanDiffers refuses to do what nobody has seen.
var errPlanDiffers = errors.New("the region or its declaration has changed since the plan was made; nothing was changed")

func newApplyCommand() *cobra.Command {
	var a applyFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply a region file to the running region, and wait until its OpenStack clusters are ready",
		Long: `Apply a region file to the running region: show the plan, as "regiond plan" does, ask, and store the
declaration with the operator's Kustomize patches; regiond's controllers roll it out, gate by gate.
Before it is stored, the plan is made again: what was not shown is not done. --plan takes the digest
that "regiond plan" prints and does exactly that plan, without a question.

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
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&a.plan, "plan", "", "digest of the plan that is to be done; another one is refused")
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
	if err := plan.Await(ctx, api, names, p.Removed(), show); err != nil {
		return notReady(fmt.Errorf("the region is not as declared after %s: %w", time.Since(started).Round(time.Second), err))
	}
	return nil
}

// approved is nil if a plan is the one that was reviewed, or that was shown and agreed to and is still what would be done.
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
	_, _, again, err := planRegion(cmd, a.file, a.cluster)
	if err == nil && again.Digest() != p.Digest() {
		err = fmt.Errorf("%w; run it again to see the new plan", errPlanDiffers)
	}
	return err
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
