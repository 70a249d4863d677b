package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
)

// rendered records the digest of the input that a part of a State was rendered from, and its
// warnings.
type rendered struct {
	of       string
	warnings []string
}

// Desired renders a cluster. The same input gives the same bytes. It takes some tenths of a second,
// plus some hundredths per host.
func (c *Composer) Desired(in Input) (*State, error) { return c.Next(in, nil) }

// Next is Desired, but reuses the parts of the last state that do not depend on what has changed
// since: the control plane does not depend on hosts, nor a host on other hosts. The last state may
// be nil, or from other templates; it is not modified.
func (c *Composer) Next(in Input, last *State) (*State, error) {
	if in.Cluster == nil || in.Cluster.Name == "" {
		return nil, errors.New("OpenStack cluster: no cluster given")
	}
	if last == nil || last.composer != c {
		last = &State{}
	}
	s, err := c.next(in, last)
	if err != nil {
		return nil, fmt.Errorf("OpenStack cluster %s: %w", in.Cluster.Name, err)
	}
	return s, nil
}

func (c *Composer) next(in Input, last *State) (*State, error) {
	if len(in.Images.Images) == 0 {
		return nil, fmt.Errorf("images of release %s are missing; build them with: regiond image build --components --openstack %s",
			in.Cluster.Spec.Release, in.Cluster.Spec.Release)
	}
	values, warnings, err := c.source.Values(in.generated())
	if err != nil {
		return nil, err
	}
	s := &State{Values: values, Images: in.Images, secrets: in.Secrets, composer: c, hosts: map[string]rendered{},
		shared: map[string]string{}}
	if s.cluster.of, err = clusterDigest(in); err != nil {
		return nil, err
	}
	if s.cluster.of == last.cluster.of {
		s.Objects, s.Configs, s.cluster, s.shared = last.Objects, last.Configs, last.cluster, last.shared
	} else if err := c.controlPlane(in, s); err != nil {
		return nil, err
	}
	s.Warnings = slices.Concat(configgen.Texts(warnings), s.cluster.warnings)
	if err := c.nodes(in, s, last); err != nil {
		return nil, err
	}
	slices.Sort(s.Warnings)
	s.Warnings = slices.Compact(s.Warnings)
	return s, nil
}

// controlPlane renders the objects and configuration of pods.
func (c *Composer) controlPlane(in Input, s *State) error {
	secrets, configs, err := c.configs(in, s)
	if err != nil {
		return err
	}
	built, err := kustomize.Build(c.base, overlay(in, configs))
	if err != nil {
		return err
	}
	s.Objects = slices.Concat([]*unstructured.Unstructured{namespace(in.Cluster.Name)}, secrets, built)
	return order(s.Objects)
}

// nodes renders each host's configuration. A host without an address is left out and keeps its
// configuration.
func (c *Composer) nodes(in Input, s, last *State) error {
	s.Nodes, s.Digests = map[string]configuration.Configuration{}, map[string]string{}
	own := map[string]region.OpenStackNodeValues{}
	for _, n := range in.Cluster.Spec.Nodes {
		own[n.Name] = n
	}
	values := c.releases(in, s)
	var errs []error
	for _, h := range in.Hosts {
		if h.Address == "" {
			continue
		}
		v, err := values(h.Release)
		if err != nil {
			s.Warnings = append(s.Warnings, fmt.Sprintf("host %s keeps its configuration: its packages are of %s, for which there is no configuration: %v",
				h.Name, h.Release, err))
			continue
		}
		of, err := digestOf(s.cluster.of, h, own[h.Name])
		if err != nil {
			return err
		}
		if was := last.hosts[h.Name]; was.of == of {
			s.hosts[h.Name], s.Nodes[h.Name], s.Digests[h.Name] = was, last.Nodes[h.Name], last.Digests[h.Name]
		} else if err := c.node(in, s, v, h, of); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", h.Name, err))
			continue
		}
		s.Warnings = append(s.Warnings, s.hosts[h.Name].warnings...)
	}
	for _, n := range in.Cluster.Spec.Nodes {
		if !slices.ContainsFunc(in.Hosts, func(h Host) bool { return h.Name == n.Name }) {
			s.Warnings = append(s.Warnings, fmt.Sprintf("values of node %s are not used: the cluster has no such host", n.Name))
		}
	}
	return errors.Join(errs...)
}

// releases returns the values by the release of a host's packages. A service does not start with
// another release's options.
func (c *Composer) releases(in Input, s *State) func(region.OpenStackRelease) (*configgen.Values, error) {
	known := map[region.OpenStackRelease]*configgen.Values{"": s.Values, in.Cluster.Spec.Release: s.Values}
	return func(release region.OpenStackRelease) (*configgen.Values, error) {
		if v := known[release]; v != nil {
			return v, nil
		}
		of := in.generated()
		declaration := *of.Declaration
		declaration.Release, of.Declaration = release, &declaration
		v, _, err := c.source.Values(of)
		if err == nil {
			known[release] = v
		}
		return v, err
	}
}

func (c *Composer) node(in Input, s *State, v *configgen.Values, h Host, of string) error {
	own, warnings, err := c.source.Node(v, configgen.Node{Name: h.Name, Address: h.Address, Registration: h.Registration,
		Secrets: in.nodeSecrets(h)})
	if err != nil {
		return err
	}
	conf, err := merge(own, h.Contributions)
	digest := ""
	if err == nil {
		_, digest, err = conf.Encode()
	}
	if err != nil && len(h.Contributions) > 0 { // a bundle's contribution to one host must not block the whole cluster
		s.Warnings = append(s.Warnings, fmt.Sprintf("host %s keeps its configuration: %v", h.Name, err))
		return nil
	}
	if err != nil {
		return err
	}
	for i, f := range conf.Files {
		if _, known := s.shared[f.Content]; !known {
			s.shared[f.Content] = f.Content
		}
		conf.Files[i].Content = s.shared[f.Content]
	}
	s.Nodes[h.Name], s.hosts[h.Name], s.Digests[h.Name] = conf, rendered{of, configgen.Texts(warnings)}, digest
	return nil
}

// Contributor is OpenStack's name among the contributors to a host's configuration.
const Contributor = "openstack"

// merge merges OpenStack's configuration of a host with the contributions of others.
func merge(own configuration.Configuration, others map[string][]byte) (configuration.Configuration, error) {
	all := []configuration.Contribution{{Contributor: Contributor, Configuration: own}}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		content := others[name]
		c, _, err := configuration.Decode(content)
		if err != nil {
			return configuration.Configuration{}, fmt.Errorf("contribution of %s: %w", name, err)
		}
		all = append(all, configuration.Contribution{Contributor: name, Configuration: c})
	}
	return configuration.Merge(all...)
}

// clusterDigest returns a digest of everything that the control plane depends on, which excludes
// hosts and their values.
func clusterDigest(in Input) (string, error) {
	cluster := *in.Cluster
	cluster.Status = region.OpenStackClusterStatus{}
	cluster.Spec.Nodes = nil
	in.Cluster, in.Hosts = &cluster, nil
	return digestOf(in)
}

func digestOf(parts ...any) (string, error) {
	b, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
