package configgen

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Ansible writes a playbook with templates and variables for a cluster's roles and the given nodes:
// the same files, rendered by Ansible. Plain values are variables of the group openstack_NAME,
// values in which nodes differ are host variables, and secrets are in separate files. It iterates
// over the nodes twice and keeps none in memory.
func (s *Source) Ansible(c Cluster, nodes []Node, emit Emit) error {
	v, _, err := s.Values(c)
	if err != nil {
		return err
	}
	a := &ansible{source: s, values: v, emit: emit, nodes: nodes, group: strings.ReplaceAll(namespace(c.Declaration.Name), "-", "_"),
		varies: map[string]bool{}, hidden: map[string]bool{}, booleans: map[string]bool{}, options: map[string]*setOption{}, counts: map[string]int{}}
	for _, step := range []func() error{a.survey, a.groupVariables, a.hostVariables, a.playbook} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

type ansible struct {
	source *Source
	values *Values
	emit   Emit
	nodes  []Node
	group  string
	// varies has the leaves in which nodes differ from the cluster, hidden the secret ones among them,
	// booleans those that are true or false anywhere.
	varies, hidden, booleans map[string]bool
	// options that nodes or the cluster set, and the number of nodes that set each.
	options map[string]*setOption
	counts  map[string]int
}

// key returns the key of a path in maps: names may contain dots.
func key(path []string) string { return strings.Join(path, "\x00") }

// survey finds the leaves in which the nodes differ.
func (a *ansible) survey() error {
	note := func(p []string, leaf *node) {
		if hasBoolean(leaf.content()) {
			a.booleans[key(p)] = true
		}
	}
	a.values.root.leaves(nil, note)
	for _, n := range a.nodes {
		nv, _, err := a.source.NodeValues(a.values, n)
		if err != nil {
			return err
		}
		var shown []string
		nv.differences(a.values, func(p []string, leaf *node) {
			a.varies[key(p)] = true
			a.hidden[key(p)] = leaf.secret
			note(p, leaf)
			if cluster := a.values.root.find(p); !leaf.secret && cluster != nil && cluster.secret {
				shown = append(shown, joined(p))
			}
		})
		if len(shown) > 0 {
			return fmt.Errorf("node %s: %s is a secret of the cluster; Ansible's variables of a host are not encrypted", n.Name, shown[0])
		}
		list, errs := a.source.setByValues(a.source.filesOf(RoleCompute), nv.root)
		if len(errs) > 0 {
			return errs[0]
		}
		for _, o := range list {
			k := key(o.path)
			a.counts[k]++
			if known := a.options[k]; known == nil {
				a.options[k] = &o
			} else {
				known.list = known.list || o.list
			}
		}
	}
	return nil
}

// hasBoolean reports whether a value is a boolean or contains one.
func hasBoolean(v any) bool {
	switch x := v.(type) {
	case bool:
		return true
	case []any:
		return slices.ContainsFunc(x, hasBoolean)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(x)), hasBoolean)
	}
	return false
}

// differences calls f for the leaves in which a node differs from its cluster.
func (v *Values) differences(cluster *Values, f func(path []string, leaf *node)) {
	var walk func(own, other *node, path []string)
	walk = func(own, other *node, path []string) {
		switch {
		case own == other:
		case own.leaf() || other == nil || other.leaf():
			own.leaves(path, f)
		default:
			for _, k := range sortedKeys(own.children) {
				walk(own.children[k], other.children[k], append(path[:len(path):len(path)], k))
			}
		}
	}
	walk(v.root, cluster.root, nil)
}

func (a *ansible) groupVariables() error {
	plain, hidden := map[string]any{}, map[string]any{}
	a.values.root.leaves(nil, func(p []string, leaf *node) {
		if leaf.secret {
			put(hidden, p, leaf.content())
		} else {
			put(plain, p, leaf.content())
		}
	})
	dir := "group_vars/" + a.group
	if err := a.variables(dir+"/values.yaml", "", "openstack", plain); err != nil {
		return err
	}
	return a.variables(dir+"/secrets.yaml", a.note(), "openstack_secrets", hidden)
}

// note returns the comment at the head of a file with secrets.
func (a *ansible) note() string {
	if a.values.cluster.Secrets == nil {
		return "# Placeholders: replace them with the secrets, in the same tree, and encrypt the file with ansible-vault.\n"
	}
	return ""
}

func (a *ansible) hostVariables() error {
	for _, n := range a.nodes {
		nv, _, err := a.source.NodeValues(a.values, n)
		if err != nil {
			return err
		}
		tree, hidden := map[string]any{}, map[string]any{}
		nv.root.leaves(nil, func(p []string, leaf *node) {
			if !a.varies[key(p)] {
				return
			}
			value := leaf.content()
			if o := a.options[key(p)]; o != nil && o.list && !isList(value) {
				value = []any{value}
			}
			if leaf.secret {
				put(hidden, p, value)
			} else {
				put(tree, p, value)
			}
		})
		dir := "host_vars/" + n.Name
		if err := errors.Join(a.variables(dir+"/values.yaml", "", "openstack_node", tree),
			a.variables(dir+"/secrets.yaml", a.note(), "openstack_node_secrets", hidden)); err != nil {
			return err
		}
	}
	return nil
}

func put(tree map[string]any, path []string, v any) {
	for _, k := range path[:len(path)-1] {
		below, ok := tree[k].(map[string]any)
		if !ok {
			below = map[string]any{}
			tree[k] = below
		}
		tree = below
	}
	tree[path[len(path)-1]] = v
}

func (a *ansible) variables(name, note, variable string, tree map[string]any) error {
	content, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: variable}, variableNode(tree)}})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return a.emit(Output{Name: name, Content: slices.Concat([]byte(note), content)})
}

// variableNode returns a value in YAML 1.1, which Ansible reads. Strings that look like templates
// are marked, or Ansible would render them.
func variableNode(v any) *yaml.Node {
	switch x := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range sortedKeys(x) {
			n.Content = append(n.Content, variableNode(k), variableNode(x[k]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range x {
			n.Content = append(n.Content, variableNode(item))
		}
		return n
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: x, Style: yaml.DoubleQuotedStyle}
		if strings.Contains(x, "{{") || strings.Contains(x, "{%") || strings.Contains(x, "{#") {
			n.Tag, n.Style = "!unsafe", n.Style|yaml.TaggedStyle
		}
		return n
	case float64:
		s := printFloat(x)
		if mantissa, exponent, ok := strings.Cut(s, "e"); ok && !strings.Contains(mantissa, ".") {
			s = mantissa + ".0e" + exponent // YAML 1.1 requires a dot here
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: s}
	}
	s, _ := printed(v) // an integer or a boolean
	return &yaml.Node{Kind: yaml.ScalarNode, Value: s}
}

// templates writes the translated templates of a role below templates/ROLE.
func (a *ansible) templates(role string) ([]*file, error) {
	list := a.source.filesOf(role)
	options, errs := a.source.setByValues(list, a.values.root)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	if role == RoleCompute && len(a.nodes) > 0 {
		options = nil
		for _, k := range sortedKeys(a.options) {
			o := *a.options[k]
			o.maybe = a.counts[k] < len(a.nodes)
			options = append(options, o)
		}
	}
	variable := func(p []string) string {
		leaf := a.values.root.find(p)
		switch {
		case slices.Equal(p, []string{"role"}):
			return quoted(role)
		case role == RoleCompute && a.hidden[key(p)]:
			return "openstack_node_secrets" + subscripts(p)
		case role == RoleCompute && a.differ(p):
			return "openstack_node" + subscripts(p)
		case leaf != nil && leaf.leaf() && leaf.secret:
			return "openstack_secrets" + subscripts(p)
		}
		return "openstack" + subscripts(p)
	}
	boolean := func(p []string) bool { return a.booleans[key(p)] }
	for i, statements := range withOptions(list, role, options) {
		name := "templates/" + role + list[i].Path + ".j2"
		if err := a.emit(Output{Name: name, Role: role, Content: []byte(translate(statements, variable, boolean))}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// differ reports whether nodes differ in a leaf, or in a leaf below a mapping.
func (a *ansible) differ(p []string) bool {
	if a.varies[key(p)] {
		return true
	}
	for k := range a.varies {
		if strings.HasPrefix(k, key(p)+"\x00") {
			return true
		}
	}
	return false
}

type play struct {
	Name     string `yaml:"name"`
	Hosts    string `yaml:"hosts"`
	Gather   bool   `yaml:"gather_facts"`
	Tasks    []task `yaml:"tasks"`
	Handlers []task `yaml:"handlers,omitempty"`
}

// task is a module call with its name, "when" and "notify".
type task map[string]any

// playbook places each role's files, and on compute hosts enables and starts the services and
// restarts those whose files changed. openstack_root puts the files below a folder, without owners,
// for review; no service is touched then.
func (a *ansible) playbook() error {
	var plays []play
	inventory := map[string]any{}
	for _, role := range a.source.Roles() {
		list, err := a.templates(role)
		if err != nil {
			return err
		}
		group := a.group + "_" + role
		hosts := map[string]any{}
		if role == RoleCompute {
			for _, n := range a.nodes {
				hosts[n.Name] = map[string]any{"ansible_host": n.Address}
			}
		}
		inventory[group] = map[string]any{"hosts": hosts}
		p := play{Name: "files of role " + role, Hosts: group}
		dirs := map[string]bool{}
		for _, f := range list {
			if dir := path.Dir(f.Path); !dirs[dir] {
				dirs[dir] = true
				p.Tasks = append(p.Tasks, task{"name": dir, "ansible.builtin.file": map[string]any{"path": below(dir), "state": "directory"}})
			}
			place := task{"name": f.Path, "ansible.builtin.template": map[string]any{
				"src": role + f.Path + ".j2", "dest": below(f.Path), "mode": f.Mode, "owner": owned(f.Owner), "group": owned(f.Group), "trim_blocks": false}}
			if role == RoleCompute {
				place["notify"] = a.source.readers(f.Path)
			}
			p.Tasks = append(p.Tasks, place)
		}
		if role == RoleCompute {
			a.services(&p)
		}
		plays = append(plays, p)
	}
	if err := a.yaml("inventory.yaml", map[string]any{a.group: map[string]any{"children": inventory}}); err != nil {
		return err
	}
	return a.yaml("playbook.yaml", plays)
}

// services adds handlers for services whose files changed, in the order of services.yaml, and tasks
// that start all services. Handlers run first, so that a service that starts for the first time
// starts only once.
func (a *ansible) services(p *play) {
	const placed = "openstack_root is not defined"
	p.Tasks = append(p.Tasks,
		task{"name": "reload units", "ansible.builtin.systemd": map[string]any{"daemon_reload": true}, "when": placed},
		task{"name": "restart services whose files changed", "ansible.builtin.meta": "flush_handlers"})
	for _, s := range a.source.services {
		unit := func(state string) map[string]any { return map[string]any{"name": s.Name, "state": state} }
		p.Handlers = append(p.Handlers, task{"name": "restart " + s.Name, "when": placed, "ansible.builtin.systemd": unit("restarted")})
		if s.Reload {
			p.Handlers = append(p.Handlers, task{"name": "reload " + s.Name, "when": placed, "ansible.builtin.systemd": unit("reloaded")})
		}
		started := unit("started")
		started["enabled"] = true
		p.Tasks = append(p.Tasks, task{"name": s.Name, "when": placed, "ansible.builtin.systemd": started})
	}
}

// readers returns the handlers of the services of compute hosts that read a file. A reload does not
// apply a changed unit.
func (s *Source) readers(file string) []string {
	handlers := []string{}
	for _, service := range s.services {
		switch {
		case !slices.Contains(service.Files, file):
		case service.Reload && path.Base(file) != service.Name:
			handlers = append(handlers, "reload "+service.Name)
		default:
			handlers = append(handlers, "restart "+service.Name)
		}
	}
	return handlers
}

func below(p string) string { return "{{ openstack_root | default('') }}" + p }

func owned(name string) string {
	return fmt.Sprintf("{{ omit if openstack_root is defined else '%s' }}", name)
}

func (a *ansible) yaml(name string, v any) error {
	content, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return a.emit(Output{Name: name, Content: content})
}
