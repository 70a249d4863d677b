// Package preview renders and explains what a region file makes of one OpenStack cluster. It changes
// nothing, and needs no control plane.
package preview

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// Config says of what the preview is.
type Config struct {
	// Document is the region file, with its defaults filled in.
	Document *check.Document
	// Cluster is the index of the cluster in spec.openstack.clusters.
	Cluster int
	// Nodes by name. None: all that the region file and, if there is one, the control plane know.
	Nodes []string
	// API is the region's control plane. Nil: only the region file tells.
	API client.Client
	// WithSecrets shows the cluster's secrets, which API has, in clear.
	WithSecrets bool
	// Network gives the files of a host's network by its profile.
	Network func(*region.Profile) ([]NetworkFile, error)
}

// NetworkFile is a file of a host's network.
type NetworkFile struct{ Path, Content string }

// Preview of a cluster and its nodes.
type Preview struct {
	source  *configgen.Source
	cluster configgen.Cluster
	nodes   []configgen.Node
	// profiles of nodes by name, as far as they are known.
	profiles map[string]*region.Profile
	network  func(*region.Profile) ([]NetworkFile, error)
	region   *region.Region
}

// Load gathers what the preview is made of.
func Load(ctx context.Context, c Config) (*Preview, error) {
	composer, err := openstack.Default()
	if err != nil {
		return nil, err
	}
	r := c.Document.Region
	d := &r.Spec.OpenStack.Clusters[c.Cluster]
	p := &Preview{region: r, source: composer.Source(), network: c.Network, cluster: configgen.Cluster{Declaration: d, Region: r.Name,
		Field: fmt.Sprintf("spec.openstack.clusters[%d]", c.Cluster), Position: c.Document.Position}}
	if c.WithSecrets {
		if p.cluster.Secrets, err = plan.Secrets(ctx, c.API, d.Name); err != nil {
			return nil, err
		}
		if p.cluster.Secrets == nil {
			return nil, fmt.Errorf("--with-secrets: cluster %s has no secrets yet; they are generated when regiond first applies it", d.Name)
		}
	}
	if c.API != nil {
		if p.cluster.KeystoneRegion, err = plan.EndpointRegion(ctx, c.API, r.Name, d.Name); err != nil {
			return nil, err
		}
	}
	if p.profiles, err = profiles(ctx, c.API, r); err != nil {
		return nil, err
	}
	p.nodes, err = plan.NodesOf(ctx, c.API, r, d, c.Nodes)
	return p, err
}

// profiles of servers by name: of those that the file tells and, if there is a control plane, of its
// hosts.
func profiles(ctx context.Context, api client.Client, r *region.Region) (map[string]*region.Profile, error) {
	profiles := map[string]*region.Profile{}
	for _, s := range r.Spec.Hardware.Servers {
		if p, sure := region.ProfileOf(&r.Spec.Hardware, s); p != nil && sure {
			profiles[s.Name] = p
		}
	}
	if api == nil {
		return profiles, nil
	}
	var hosts region.HostList
	if err := api.List(ctx, &hosts); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	for _, h := range hosts.Items {
		i := slices.IndexFunc(r.Spec.Hardware.Profiles, func(p region.Profile) bool { return p.Name == h.Spec.Profile })
		if i >= 0 {
			profiles[h.Name] = &r.Spec.Hardware.Profiles[i]
		}
	}
	return profiles, nil
}

// Nodes are the names of the nodes.
func (p *Preview) Nodes() []string {
	names := make([]string, len(p.nodes))
	for i, n := range p.nodes {
		names[i] = n.Name
	}
	return names
}

// Explain tells where an option of a file of a node comes from or, if node is "", of a file of pods.
func (p *Preview) Explain(node, file, option string) (*configgen.Explanation, error) {
	v, _, err := p.source.Values(p.cluster)
	if err != nil {
		return nil, err
	}
	if node == "" {
		return p.source.ExplainPods(v, file, option)
	}
	i := slices.Index(p.Nodes(), node)
	if i < 0 {
		return nil, fmt.Errorf("node %s is not one of %v, of which the preview is", node, p.Nodes())
	}
	if v, _, err = p.source.NodeValues(v, p.nodes[i]); err != nil {
		return nil, err
	}
	return p.source.Explain(v, configgen.RoleCompute, file, option)
}
