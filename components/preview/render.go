package preview

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// Targets that Render knows.
const (
	TargetApply           = "apply"
	TargetKustomize       = "kustomize"
	TargetExternalSecrets = "external-secrets"
	TargetAnsible         = "ansible"
)

// Targets are all of them.
var Targets = []string{TargetApply, TargetKustomize, TargetExternalSecrets, TargetAnsible}

// Render emits the files of a target. It renders everything once before it emits anything: nothing
// is written of what has an error in it.
func (p *Preview) Render(target string, emit configgen.Emit) error {
	// Warnings were told when the file was read.
	if _, err := p.source.Apply(p.cluster, p.nodes, func(configgen.Output) error { return nil }); err != nil {
		return err
	}
	switch target {
	case TargetExternalSecrets:
		return p.source.ExternalSecrets(p.cluster, p.nodes, emit)
	case TargetAnsible:
		return p.source.Ansible(p.cluster, p.nodes, emit)
	case TargetKustomize:
		return p.manifests(emit)
	case TargetApply:
		if _, err := p.source.Apply(p.cluster, p.nodes, emit); err != nil {
			return err
		}
		return p.hosts(emit)
	}
	return fmt.Errorf("unknown target %q; there are %s", target, strings.Join(Targets, ", "))
}

// vaultHint follows secrets that were written in clear.
const vaultHint = "the files secrets.yaml hold secrets in clear; before they leave this host: ansible-vault encrypt DIR/*_vars/*/secrets.yaml"

// Caution says what to do about secrets in what Render emits of a target, "" if there is nothing to
// be done.
func (p *Preview) Caution(target string) string {
	if target == TargetAnsible && p.cluster.Secrets != nil {
		return vaultHint
	}
	return ""
}

// manifests emits the cluster's Kubernetes objects, with the images that were built on this machine
// if there are any.
func (p *Preview) manifests(emit configgen.Emit) error {
	clusters, err := openstack.Clusters(p.region, openstack.ReadPatches)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(clusters, func(c *region.OpenStackCluster) bool { return c.Name == p.cluster.Declaration.Name })
	cluster := clusters[i] // the declaration is the region's
	if p.cluster.KeystoneRegion != "" {
		cluster.Spec.KeystoneRegion = p.cluster.KeystoneRegion
	}
	release := string(cluster.Spec.Release)
	set, err := oci.Current(p.region.Spec.Images.Dir, release)
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
	input := openstack.Input{Cluster: cluster, RegionName: p.region.Name, DataDir: p.region.Spec.ControlPlane.DataDir, Secrets: p.cluster.Secrets, Images: set}
	return composer.Manifests(input, func(name string, content []byte) error {
		return emit(configgen.Output{Name: name, Content: content})
	})
}

// hosts emits what nodes become by their profiles, as far as these are known.
func (p *Preview) hosts(emit configgen.Emit) error {
	for _, n := range p.nodes {
		profile := p.profiles[n.Name]
		if profile == nil {
			continue
		}
		outputs, err := p.host(n.Name, profile)
		if err != nil {
			return err
		}
		for _, o := range outputs {
			if err := emit(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// host is what a node becomes by its profile: its network, and what is appended to its kernel's
// command line.
func (p *Preview) host(name string, profile *region.Profile) ([]configgen.Output, error) {
	network, err := p.network(profile)
	if err != nil {
		return nil, err
	}
	dir, arguments := "nodes/"+name, ""
	for _, argument := range profile.KernelArguments {
		arguments += argument + "\n"
	}
	outputs := []configgen.Output{{Name: dir + "/kernel-arguments", Role: configgen.RoleCompute, Node: name, Content: []byte(arguments)}}
	for _, f := range network {
		outputs = append(outputs, configgen.Output{Name: dir + f.Path, Role: configgen.RoleCompute, Node: name, Content: []byte(f.Content),
			File: configgen.File{Path: f.Path, Mode: "0644", Owner: "root", Group: "root", Network: true, Content: f.Content}})
	}
	return outputs, nil
}
