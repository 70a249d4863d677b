package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// cluster of the running region by its name, or the only one, and the API server that has it.
func (f *dataDirFlags) cluster(ctx context.Context, name string) (client.Client, *region.OpenStackCluster, error) {
	api, _, err := f.api()
	if err != nil {
		return nil, nil, err
	}
	var list region.OpenStackClusterList
	if err := api.List(ctx, &list); err != nil {
		return nil, nil, err
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	i, err := chooseCluster(names, name)
	if err != nil {
		return nil, nil, err
	}
	return api, &list.Items[i], nil
}

// chooseCluster returns the index of a cluster by its name, or of the only one if no name was
// given.
func chooseCluster(names []string, name string) (int, error) {
	i := slices.Index(names, name)
	switch {
	case len(names) == 0:
		return 0, fmt.Errorf("the region has no OpenStack cluster; declare one in spec.openstack.clusters of region.yaml")
	case name == "" && len(names) == 1:
		return 0, nil
	case name == "":
		return 0, invalid(fmt.Errorf("the region has several OpenStack clusters; name one of %s by --cluster", strings.Join(names, ", ")))
	case i < 0:
		return 0, invalid(fmt.Errorf("the region has no OpenStack cluster %q; there are %s", name, strings.Join(names, ", ")))
	}
	return i, nil
}
