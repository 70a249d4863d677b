package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

// api is the control plane of the region, with its administrator's rights.
func (f *dataDirFlags) api() (client.Client, *rest.Config, error) {
	dataDir, err := f.resolve()
	if err != nil {
		return nil, nil, err
	}
	conf, err := clientcmd.BuildConfigFromFlags("", datadir.AdminKubeconfig.In(dataDir))
	if err != nil {
		return nil, nil, unreachable(fmt.Errorf("%w; regiond run or regiond install starts a control plane", err))
	}
	conf.QPS = -1 // the API server's own priority and fairness is the limit
	api, err := client.New(conf, client.Options{Scheme: scheme.New()})
	return api, conf, err
}

// reachable tells a control plane that does not answer, or that is another region's, from one with
// something to plan.
func reachable(ctx context.Context, api client.Client, name string) error {
	var list region.RegionList
	if err := api.List(ctx, &list); err != nil {
		return unreachable(fmt.Errorf("the control plane does not answer: %w; see: regiond status", err))
	}
	for _, r := range list.Items {
		if r.Name != name {
			return invalid(fmt.Errorf("this is the control plane of region %q, and the file is of region %q", r.Name, name))
		}
	}
	return nil
}
