package configgen

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/configgen/secrets"

	"regiond.dev/regiond/region"
)

// Cluster is the input for the values of one OpenStack cluster.
type Cluster struct {
	// Declaration of the cluster, with defaults filled in (Release, Address).
	Declaration *region.OpenStackDeclaration
	// Region is the region's name.
	Region string
	// KeystoneRegion is the region of the endpoints in the catalogue, unless a value sets another.
	// Default: the region's name.
	KeystoneRegion string
	// Secrets of the cluster. Nil if unknown; every declared secret is then rendered as
	// "<secret:PATH>".
	Secrets map[string]any
	// Field is the path of the declaration in messages, e.g. spec.openstack.clusters[0]. Default:
	// spec.
	Field string
	// Position returns the file and line of a field, if known; see check.Document.
	Position func(path string) (file string, line int, ok bool)
}

// Node is a compute host of a cluster. The cluster's declaration has its values by name.
type Node struct {
	// Name of the host.
	Name string
	// Address in the provisioning network.
	Address string
	// Registration is the UUID of the node's nova-compute service, empty before it has registered.
	Registration string
	// Secrets are the passwords of the node's own users by their name below "node". A missing one is
	// rendered as "<secret:PATH>".
	Secrets map[string]string
}

// nodeSecrets are the possible keys of Node.Secrets.
var nodeSecrets = []string{NodeKeystonePassword, NodeRabbitMQPassword}

// Names of the passwords of a node's own users, below "node" in the tree.
const (
	NodeKeystonePassword = "keystone_password"
	NodeRabbitMQPassword = "rabbitmq_password"
)

// secretLayer returns the layer with the passwords of the node's own users.
func (n Node) secretLayer() *layer {
	tree := map[string]any{}
	for _, name := range nodeSecrets {
		tree[name] = cmp.Or(n.Secrets[name], "<secret:node."+name+">")
	}
	return &layer{name: "secrets of the node", kind: secretLayer, tree: map[string]any{"node": tree},
		where: func(string) string { return "host " + n.Name }}
}

// Values are the merged values of a cluster or of one of its nodes. They are immutable.
type Values struct {
	root    *node
	release string
	cluster *Cluster
	// nodes has the index of each node in the declaration.
	nodes map[string]int
	// node is empty for the values of a cluster.
	node string
}

// Tree returns a copy of the values as plain maps, e.g. {"keystone": {"region": "RegionOne"}}. It
// contains secrets.
func (v *Values) Tree() map[string]any {
	tree, _ := v.root.plain().(map[string]any) // the root is always a mapping
	return tree
}

// Lookup returns a value by its path, e.g. keystone.region.
func (v *Values) Lookup(path string) (any, bool) {
	n := v.root.find(strings.Split(path, "."))
	if n == nil {
		return nil, false
	}
	return n.plain(), true
}

// namespace returns the namespace of a cluster's pods and secrets.
func namespace(cluster string) string { return "openstack-" + cluster }

// secretsPlace names the Secret of a cluster for messages.
func secretsPlace(cluster string) string {
	return "Secret " + namespace(cluster) + "/openstack-secrets, key secrets.json"
}

// Values merges all layers of a cluster. Warnings are about values that no template uses. If there
// is an error, v is what could be merged, or nil: use it only to look for further errors.
func (s *Source) Values(c Cluster) (v *Values, warnings []*Problem, err error) {
	secrets, err := s.secretTree(c, func(path string) string { return "<secret:" + path + ">" })
	if err != nil {
		return nil, nil, err
	}
	return s.values(c, secrets)
}

// secretTree returns the cluster's secrets, or placeholders for the declared ones.
func (s *Source) secretTree(c Cluster, placeholder func(path string) string) (map[string]any, error) {
	if c.Secrets == nil {
		tree := s.placeholders(placeholder)
		for _, name := range referred(c.Declaration) {
			p := OwnSecrets + "." + name
			secrets.Put(tree, p, placeholder(p))
		}
		return tree, nil
	}
	tree, err := normal(c.Secrets, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", secretsPlace(c.Declaration.Name), err)
	}
	object, _ := tree.(map[string]any) // normal preserves the type
	return object, nil
}

func (s *Source) values(c Cluster, secrets map[string]any) (v *Values, warnings []*Problem, err error) {
	d := c.Declaration
	if c.Field == "" {
		c.Field = "spec"
	}
	release := string(d.Release)
	of := s.releases[release]
	if len(of) == 0 {
		field := c.Field + ".release"
		return nil, nil, &Problem{Field: field, Place: c.fieldPlace(field),
			Message: fmt.Sprintf("release %q is not known; known: %s", release, strings.Join(s.Releases(), ", "))}
	}
	layers := []*layer{c.named()}
	for _, f := range slices.Concat(s.defaults, of) {
		layers = append(layers, f.layer())
	}
	more, errs := s.given(&c, secrets, c.Field, "the cluster", d.Values, d.Overrides)
	layers = slices.Concat(layers, []*layer{c.facts()}, more)
	layers = append(layers, &layer{name: "secrets", kind: secretLayer, tree: secrets,
		where: func(string) string { return secretsPlace(d.Name) }})
	v = &Values{root: empty, release: release, cluster: &c, nodes: make(map[string]int, len(d.Nodes))}
	for i, n := range d.Nodes {
		v.nodes[n.Name] = i
	}
	errs = append(errs, v.lay(layers)...)
	errs = append(errs, s.conflicts(v)...)
	return v, s.unused(layers), joinProblems(errs)
}

// lay merges layers into the tree.
func (v *Values) lay(layers []*layer) (errs []error) {
	for _, l := range layers {
		root, wrong := merge(v.root, l)
		v.root, errs = root, append(errs, wrong...)
	}
	return errs
}

// given returns the operator's layers: values and overrides, with the secrets that they refer to.
func (s *Source) given(c *Cluster, hidden map[string]any, field, of string, values, overrides *runtime.RawExtension) (layers []*layer, errs []error) {
	for _, g := range []struct {
		name string
		kind layerKind
		raw  *runtime.RawExtension
	}{{"values", firmLayer, values}, {"overrides", overrideLayer, overrides}} {
		if g.raw == nil || len(g.raw.Raw) == 0 {
			continue
		}
		tree, err := decodeObject(g.raw.Raw)
		if err != nil {
			errs = append(errs, &Problem{Field: field + "." + g.name, Place: c.fieldPlace(field + "." + g.name), Message: err.Error()})
			continue
		}
		l := &layer{name: g.name + " of " + of, kind: g.kind, operator: true, tree: tree, where: c.declared(field + "." + g.name),
			field: func(path string) string { return field + "." + g.name + "." + path }}
		if s.typed {
			errs = slices.Concat(errs, withoutFacts(l), s.resolve(l, c, hidden), s.checkValues(l), s.writeOptions(l, string(c.Declaration.Release)))
		}
		layers = append(layers, l)
	}
	return layers, errs
}

// optionNames matches valid names of sections and options. Any other character could end the line
// that it is in.
var optionNames = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// writeOptions adds the layer's options as written for oslo.config.
func (s *Source) writeOptions(l *layer, release string) (errs []error) {
	l.written = map[string]any{}
	walk(l.tree, nil, func(path []string, value any) {
		if !isOption(path) || !s.projects[path[0]] {
			return
		}
		if !optionNames.MatchString(path[2]) || !optionNames.MatchString(path[3]) {
			errs = append(errs, l.problem(path, "is not the name of an option: names have letters, digits, _, - and ."))
			return
		}
		if why := s.owned(release, path[0], path[2], path[3]); why != "" {
			errs = append(errs, l.problem(path, "[%s] %s: %s", path[2], path[3], why))
			return
		}
		if text, _ := value.(string); l.secrets[key(path)] {
			l.written[key(path)] = writtenSecret(text)
			return
		}
		w := optionWriter{s, release, path[0], path[2]}
		written, wrong := w.write(path[3], value)
		if wrong != "" {
			errs = append(errs, l.problem(path, "[%s] %s %s", path[2], path[3], wrong))
		}
		l.written[key(path)] = written
	})
	return errs
}

// named returns defaults that follow from the region's name.
func (c *Cluster) named() *layer {
	return &layer{name: "defaults by the region's name", kind: softLayer, where: func(string) string { return c.fieldPlace("metadata.name") },
		tree: map[string]any{"keystone": map[string]any{"region": cmp.Or(c.KeystoneRegion, c.Region)}}}
}

// facts returns the facts that follow from the declaration.
func (c *Cluster) facts() *layer {
	d := c.Declaration
	networks := make([]any, len(d.PhysicalNetworks))
	for i, n := range d.PhysicalNetworks {
		first, last, _ := strings.Cut(n.VLANs, "-")
		a, errA := strconv.ParseInt(first, 10, 64)
		b, errB := strconv.ParseInt(last, 10, 64)
		if errA != nil || errB != nil {
			a, b = 0, 0 // no VLANs: the region has been validated
		}
		networks[i] = map[string]any{"name": n.Name, "interface": n.Interface, "bridge": "br-" + n.Name, "vlans_first": a, "vlans_last": b}
	}
	fields := map[string]string{"cluster.name": ".name", "cluster.namespace": ".name", "cluster.address": ".address", "cluster.release": ".release",
		"physical_networks": ".physicalNetworks"}
	return &layer{name: "facts of the cluster", kind: firmLayer, tree: map[string]any{
		"cluster": map[string]any{"name": d.Name, "address": d.Address, "release": string(d.Release), "namespace": namespace(d.Name)},
		"region":  map[string]any{"name": c.Region}, "physical_networks": networks,
	}, where: func(path string) string {
		if field, ok := fields[path]; ok {
			return c.fieldPlace(c.Field + field)
		}
		return c.fieldPlace("metadata.name")
	}}
}

// NodeValues returns the cluster's values merged with those of a node. Warnings are about the
// node's own values that no template uses.
func (s *Source) NodeValues(v *Values, n Node) (*Values, []*Problem, error) {
	c := v.cluster
	fact := func(string) string { return "host " + n.Name }
	layers := []*layer{{name: "facts of the node", kind: firmLayer, where: fact, tree: map[string]any{
		"node": map[string]any{"name": n.Name, "address": n.Address, "registration": n.Registration}}},
		n.secretLayer()}
	var errs []error
	if i, ok := v.nodes[n.Name]; ok {
		own := &c.Declaration.Nodes[i]
		var more []*layer
		more, errs = s.given(c, nil, fmt.Sprintf("%s.nodes[%d]", c.Field, i), "the node", own.Values, own.Overrides)
		layers = append(layers, more...)
	}
	nv := &Values{root: v.root, release: v.release, cluster: c, nodes: v.nodes, node: n.Name}
	errs = append(errs, nv.lay(layers)...)
	errs = append(errs, s.conflicts(nv)...)
	return nv, s.unused(layers), joinProblems(errs)
}

// NodeNames returns the nodes that have their own values, sorted.
func (v *Values) NodeNames() []string { return sortedKeys(v.nodes) }
