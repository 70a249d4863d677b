package cluster

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// catalogueTimeout bounds what a plan asks of one Keystone, which may be down.
const catalogueTimeout = 10 * time.Second

// PlanEndpoints adds to a plan what an apply removes from the catalogues of running clusters. A
// Keystone that does not answer is a warning: everything else in the plan holds.
func PlanEndpoints(ctx context.Context, api client.Client, p *plan.Plan, declared []*region.OpenStackCluster) error {
	for _, planned := range p.Clusters {
		for _, d := range declared {
			if d.Name != planned.Cluster {
				continue
			}
			live := &region.OpenStackCluster{}
			if err := api.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
				if client.IgnoreNotFound(err) == nil {
					continue
				}
				return fmt.Errorf("OpenStack cluster %s: %w", d.Name, err)
			}
			secrets, err := plan.Secrets(ctx, api, d.Name)
			if err != nil {
				return err
			}
			if secrets == nil {
				continue // it has no Keystone yet
			}
			d = d.DeepCopy()
			d.UID = live.UID
			old, err := staleEndpoints(ctx, Admin(live, secrets), Catalogue(d, planned.Value))
			if err != nil {
				planned.Warnings = append(planned.Warnings, fmt.Sprintf("endpoints that are no longer declared are not in this plan: %v", err))
			}
			for _, e := range old {
				planned.Endpoints = append(planned.Endpoints, e.String())
			}
		}
	}
	return nil
}

func staleEndpoints(ctx context.Context, admin cloud.Credentials, c cloud.Catalogue) ([]cloud.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, catalogueTimeout)
	defer cancel()
	s, err := cloud.Login(ctx, admin)
	if err != nil {
		return nil, err
	}
	return s.Stale(ctx, c)
}
