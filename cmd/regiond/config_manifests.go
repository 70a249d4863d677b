package main

import (
	"errors"
	"io/fs"
	"slices"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// manifests emits the cluster's Kubernetes objects, with the images that were built on this machine
// if there are any.
func (in *configInput) manifests(emit configgen.Emit) error {
	clusters, err := openstack.Clusters(in.region, openstack.ReadPatches)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(clusters, func(c *region.OpenStackCluster) bool { return c.Name == in.cluster.Declaration.Name })
	cluster := clusters[i] // the declaration is the region's
	if in.cluster.KeystoneRegion != "" {
		cluster.Spec.KeystoneRegion = in.cluster.KeystoneRegion
	}
	release := string(cluster.Spec.Release)
	set, err := oci.Current(in.region.Spec.Images.Dir, release)
	if errors.Is(err, fs.ErrNotExist) {
		set, err = openstack.UnbuiltImages(release)
	}
	if err != nil {
		return err
	}
	composer, err := openstack.Default()
	if err != nil {
		return err
	}
	input := openstack.Input{Cluster: cluster, RegionName: in.region.Name, DataDir: in.region.Spec.ControlPlane.DataDir, Secrets: in.cluster.Secrets, Images: set}
	return composer.Manifests(input, func(name string, content []byte) error {
		return emit(configgen.Output{Name: name, Content: content})
	})
}
