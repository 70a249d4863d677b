package openstack

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/images/oci"
)

// Manifests emits a cluster's Kubernetes objects as a base and an overlay for Kustomize: `kustomize
// build overlay` builds the Objects of Desired. Without secrets, the Secrets with configuration
// have placeholders, and therefore different names.
func (c *Composer) Manifests(in Input, emit func(name string, content []byte) error) error {
	values, _, err := c.source.Values(in.generated())
	if err != nil {
		return err
	}
	secrets, configs, err := c.configs(in, &State{Values: values})
	if err != nil {
		return err
	}
	others := slices.Concat([]*unstructured.Unstructured{namespace(in.Cluster.Name)}, secrets)
	return kustomize.Write(c.base, overlay(in, configs), others, emit)
}

// generated returns the cluster for the configuration generator.
func (in Input) generated() configgen.Cluster {
	return configgen.Cluster{Declaration: &in.Cluster.Spec.OpenStackDeclaration, Region: in.RegionName, KeystoneRegion: in.Cluster.EndpointRegion(),
		Secrets: in.Secrets}
}

// UnbuiltImages returns placeholders for a release's images where none were built: their digests
// are all zeros.
func UnbuiltImages(release string) (oci.Set, error) {
	names, err := oci.ImageNames(release)
	if err != nil {
		return oci.Set{}, fmt.Errorf("images of release %s: %w", release, err)
	}
	set := oci.Set{Release: release, Images: map[string]oci.Image{}}
	for _, name := range names {
		set.Images[name] = oci.Image{Repository: "openstack/" + release + "/" + name, Digest: "sha256:" + strings.Repeat("0", 64)}
	}
	return set, nil
}
