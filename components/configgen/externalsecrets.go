package configgen

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ExternalSecrets writes, for each role and node, a ConfigMap with the files as templates for the
// External Secrets operator, with all values filled in except for secrets, and the ExternalSecret
// that fetches the secrets (https://external-secrets.io, API v1). The operator renders the Secret
// config-ROLE, or config-compute-NODE. Secrets are looked up in the cluster's store, or in the
// ClusterSecretStore openstack-NAME, in the entry openstack-NAME/openstack-secrets, by their path
// in the tree; passwords of a node's own users by hosts.NODE.NAME.
func (s *Source) ExternalSecrets(c Cluster, nodes []Node, emit Emit) error {
	x := &externalSecrets{source: s, emit: emit, namespace: namespace(c.Declaration.Name), paths: map[string]string{}}
	x.store, x.entry = x.namespace, c.Declaration.StoreEntry()
	if from := c.Declaration.Secrets.Source.ExternalSecrets; from != nil {
		x.store = from.Store
	}
	// NUL marks where a secret's key begins and ends, because no other text contains it.
	tree, err := s.secretTree(c, func(path string) string { return path })
	if err != nil {
		return err
	}
	marked, _ := x.mark(tree, "").(map[string]any) // mark preserves the type
	if len(x.errs) > 0 {
		return errors.Join(x.errs...)
	}
	v, _, err := s.values(c, marked)
	if err != nil {
		return err
	}
	for _, role := range s.Roles() {
		if role == RoleCompute {
			continue
		}
		if err := x.role(v, role, "config-"+role); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		n.Secrets = x.markNode(n.Name)
		nv, _, err := s.NodeValues(v, n)
		if err != nil {
			return err
		}
		if err := x.role(nv, RoleCompute, "config-"+RoleCompute+"-"+n.Name); err != nil {
			return err
		}
	}
	return nil
}

type externalSecrets struct {
	source    *Source
	emit      Emit
	namespace string
	// store and entry that the secrets are in.
	store, entry string
	// paths of secrets by key.
	paths map[string]string
	errs  []error
}

var notInKeys = regexp.MustCompile(`[^A-Za-z0-9]+`)

// mark replaces each secret with its key between NULs. Properties are named by JSON path
// (nova.keys.0).
func (x *externalSecrets) mark(v any, path string) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for _, k := range sortedKeys(t) {
			out[k] = x.mark(t[k], strings.TrimPrefix(path+"."+k, "."))
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, item := range t {
			out[i] = x.mark(item, fmt.Sprintf("%s.%d", path, i))
		}
		return out
	}
	key := "s_" + notInKeys.ReplaceAllString(path, "_")
	if other, dup := x.paths[key]; dup {
		x.errs = append(x.errs, fmt.Errorf("secrets %s and %s would have the same key, %s; rename one", other, path, key))
	}
	x.paths[key] = path
	return "\x00" + key + "\x00"
}

// markNode replaces the passwords of a node's own users, which are looked up below hosts.NODE.
func (x *externalSecrets) markNode(node string) map[string]string {
	marked := map[string]string{}
	for _, name := range nodeSecrets {
		key := "s_node_" + name
		x.paths[key] = "hosts." + node + "." + name
		marked[name] = "\x00" + key + "\x00"
	}
	return marked
}

// DataKey returns the key of a file in a Secret or ConfigMap: its path with dots, e.g.
// etc.nova.nova.conf.
func DataKey(path string) string { return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".") }

func (x *externalSecrets) role(v *Values, role, name string) error {
	files, _, err := x.source.Render(v, role)
	if err != nil {
		return err
	}
	data, items, keys := map[string]any{}, []any{}, map[string]bool{}
	for _, f := range files {
		key := DataKey(f.Path)
		if _, dup := data[key]; dup {
			return fmt.Errorf("role %s: two files have the key %s", role, key)
		}
		data[key] = asTemplate(f.Content, keys)
		items = append(items, map[string]any{"key": key, "templateAs": "Values"})
	}
	meta := map[string]any{"name": name, "namespace": x.namespace}
	refs := []any{}
	for _, key := range sortedKeys(keys) {
		remote := map[string]any{"key": x.entry, "property": x.paths[key]}
		refs = append(refs, map[string]any{"secretKey": key, "remoteRef": remote})
	}
	configMap, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	spec := map[string]any{
		"refreshInterval": "1h", "secretStoreRef": map[string]any{"kind": "ClusterSecretStore", "name": x.store}, "data": refs,
		"target": map[string]any{"name": name, "template": map[string]any{"engineVersion": "v2",
			"templateFrom": []any{map[string]any{"configMap": map[string]any{"name": name, "items": items}}}}},
	}
	external, err := yaml.Marshal(map[string]any{"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": meta, "spec": spec})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return x.emit(Output{Name: name + ".yaml", Role: role, Node: v.node, Content: slices.Concat(configMap, []byte("---\n"), external)})
}

// asTemplate turns a file with marked secrets into a Go template, and records their keys.
func asTemplate(content string, keys map[string]bool) string {
	var b strings.Builder
	for i, part := range strings.Split(content, "\x00") {
		if i%2 == 1 {
			key, _, _ := strings.Cut(part, " ") // a function may follow, see writtenSecret
			keys[key] = true
			b.WriteString("{{ ." + part + " }}")
			continue
		}
		// A brace that begins an action, or would do so with the next one, is printed by an action.
		for j, c := range []byte(part) {
			if c == '{' && (j+1 == len(part) || part[j+1] == '{') {
				b.WriteString(`{{ "{" }}`)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}
