package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// errChanges makes the exit status 2 without a message: the plan was the message.
var errChanges = errors.New("the region differs from its declaration")

func newPlanCommand() *cobra.Command {
	var file, only, output string
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a region file would change in the running region, and what follows from it",
		Long: `Show what a region file would change in the running region: the declaration, Kubernetes objects and
files of compute hosts together, and what follows from it: which pods and which services of nodes
restart, when each field of the declaration takes effect, and which disks would be overwritten.
Nothing is changed. Clusters run the templates and images of their last apply; what a newer regiond or
newer images would change is in the plan, too. The control plane itself compares, in a dry run: the
apply of a plan without changes writes nothing. Secrets are not shown.

+ is created, ~ is changed, ± is replaced, - is deleted, → is what follows, ! is a warning.`,
		Example: `  sudo regiond plan -f region.yaml

  # In CI: is the region as declared?
  sudo regiond plan -f region.yaml --exit-code >/dev/null   # 0 yes, 2 no, others: failed

  # Which pods' templates change?
  sudo regiond plan -f region.yaml -o json | jq -r '.clusters[].changes[] | select(.consequence) | .object.name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			planned, err := planRegion(cmd, file, only)
			if err != nil {
				return err
			}
			p := planned.Plan
			if output == "json" {
				err = writeAs(cmd.OutOrStdout(), output, struct {
					Digest string `json:"digest"`
					*plan.Plan
				}{p.Digest(), p})
			} else if err = p.WriteText(cmd.OutOrStdout()); err == nil && !p.Empty() {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "To apply exactly this: regiond apply --plan %s\n", p.Digest())
			}
			if err == nil && exitCode && !p.Empty() {
				err = errChanges
			}
			return err
		},
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	addClusterFlag(cmd, &only)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 2 if there are changes")
	return cmd
}

func addClusterFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "cluster", "", "this OpenStack cluster alone, e.g. one for staging; the region and its other clusters are left as they are")
}

// plannedRegion is a plan with what it was made of.
type plannedRegion struct {
	*plan.Plan
	api    client.Client
	region *region.Region
	// data is the content of the region file.
	data []byte
}

// planRegion reads a region file with the patches beside it and compares it, or only one cluster of
// it, with the running region.
func planRegion(cmd *cobra.Command, file, only string) (*plannedRegion, error) {
	doc, data, err := loadChecked(cmd, file)
	if err != nil {
		return nil, err
	}
	r := doc.Region
	clusters, err := openstack.Clusters(r, openstack.ReadPatches)
	if err != nil {
		return nil, err
	}
	where := dataDirFlags{dataDir: r.Spec.ControlPlane.DataDir}
	api, _, err := where.api()
	if err != nil {
		return nil, err
	}
	if err := reachable(cmd.Context(), api, r.Name); err != nil {
		return nil, err
	}
	p, err := planClusters(cmd.Context(), api, r, clusters, only)
	if err != nil {
		return nil, err
	}
	return &plannedRegion{Plan: p, api: api, region: r, data: data}, cluster.PlanEndpoints(cmd.Context(), api, p, clusters)
}

// planClusters plans the region with all clusters, or one of them alone if it is named.
func planClusters(ctx context.Context, api client.Client, r *region.Region, clusters []*region.OpenStackCluster, only string) (*plan.Plan, error) {
	if only != "" {
		i := slices.IndexFunc(clusters, func(c *region.OpenStackCluster) bool { return c.Name == only })
		if i < 0 {
			return nil, invalid(fmt.Errorf("--cluster %s: spec.openstack.clusters of the region file has no cluster of that name", only))
		}
		return plan.OfCluster(ctx, api, r, clusters[i])
	}
	p, err := plan.OfRegion(ctx, api, r, clusters)
	if err != nil {
		return nil, err
	}
	p.Machines, err = server.Foresee(ctx, api, r, time.Now())
	return p, err
}
