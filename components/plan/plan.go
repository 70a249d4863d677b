package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/rollout"
)

// Cluster is the plan of an OpenStack cluster.
type Cluster struct {
	Cluster string `json:"cluster"`
	Release string `json:"release"`
	// Changes of Kubernetes objects in the order in which they are applied.
	Changes []rollout.Change `json:"changes,omitempty"`
	// Configs are the changed configurations of pods.
	Configs []ConfigChange `json:"configs,omitempty"`
	// Endpoints that will be removed from Keystone's catalogue; filled in by the caller, which can
	// query clouds.
	Endpoints []string `json:"endpoints,omitempty"`
	// Nodes are the hosts whose configuration changes.
	Nodes    []NodeChange `json:"nodes,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`

	state *openstack.State
}

// Value returns a value that the configuration of pods is rendered from, by its path, e.g.
// keystone.region.
func (p *Cluster) Value(path string) (any, bool) { return p.state.Values.Lookup(path) }

// ConfigChange is the change of the configuration of a role of pods.
type ConfigChange struct {
	Role  string       `json:"role"`
	Files []FileChange `json:"files"`
}

// Empty reports whether nothing would change.
func (p *Cluster) Empty() bool {
	return len(p.Changes) == 0 && len(p.Nodes) == 0 && len(p.Endpoints) == 0
}

// OfState compares a desired state with the live one. It changes nothing.
func OfState(ctx context.Context, c client.Client, f Facts, s *openstack.State) (*Cluster, error) {
	p := &Cluster{Cluster: f.Cluster.Name, Release: string(f.Cluster.Spec.Release), Warnings: slices.Concat(s.Warnings, f.Stray, f.Waiting), state: s}
	if f.Secrets == nil {
		p.Warnings = append(p.Warnings, "the cluster's secrets will be generated; the names of config-* depend on them and are not final")
	}
	for _, o := range s.Objects {
		change, err := rollout.Compare(ctx, c, o)
		if err != nil {
			return nil, fmt.Errorf("OpenStack cluster %s: %w", p.Cluster, err)
		}
		if change.Action == rollout.ActionNone {
			continue
		}
		for i, f := range change.Fields {
			change.Fields[i].Old, change.Fields[i].New = s.Redact(f.Old), s.Redact(f.New)
		}
		p.Changes = append(p.Changes, change)
	}
	gone, err := rollout.Deletions(ctx, c, Owned(p.Cluster), s.Objects)
	if err != nil {
		return nil, err
	}
	p.Changes = append(p.Changes, gone...)
	if p.Configs, err = planConfigs(ctx, c, p, s); err != nil {
		return nil, err
	}
	p.Nodes, err = planNodes(ctx, c, p.Cluster, s, f.Hosts)
	return p, err
}

// Owned returns the objects of a cluster that may be pruned. Its secrets stay.
func Owned(cluster string) rollout.Owned {
	namespace := openstack.Namespace(cluster)
	return rollout.Owned{Namespace: namespace,
		Labels: map[string]string{openstack.LabelCluster: cluster, openstack.LabelManagedBy: openstack.ManagedBy},
		Kept:   []rollout.Ref{{Kind: "Secret", Namespace: namespace, Name: openstack.SecretName}}}
}

// planConfigs compares the live configuration of workloads with the desired one.
func planConfigs(ctx context.Context, c client.Client, p *Cluster, s *openstack.State) ([]ConfigChange, error) {
	var all []ConfigChange
	for role, now := range rolesThatChange(p.Changes, s) {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("v1")
		old.SetKind("Secret")
		err := c.Get(ctx, client.ObjectKey{Namespace: openstack.Namespace(p.Cluster), Name: now}, old)
		if apierrors.IsNotFound(err) {
			continue // the Secret is missing, and pods that wait for it get a new one
		}
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", now, err)
		}
		before, err := secretData(old)
		if err != nil {
			return nil, err
		}
		if files := diffConfig(before, s.Configs[role], s.Redact); len(files) > 0 {
			all = append(all, ConfigChange{Role: role, Files: files})
		}
	}
	slices.SortFunc(all, func(a, b ConfigChange) int { return strings.Compare(a.Role, b.Role) })
	return all, nil
}

// rolesThatChange maps roles to the Secret that a workload has now, if it gets a different one.
func rolesThatChange(changes []rollout.Change, s *openstack.State) map[string]string {
	roles := map[string]string{}
	for _, change := range changes {
		if !change.RestartsPods() {
			continue
		}
		before, after := change.References()
		next := map[string]bool{}
		for _, r := range after {
			next[r.Name] = true
		}
		for _, r := range before {
			for role := range s.Configs {
				if _, ours := strings.CutPrefix(r.Name, openstack.ConfigSecret(role)+"-"); r.Kind == "Secret" && ours && !next[r.Name] {
					roles[role] = r.Name
				}
			}
		}
	}
	return roles
}

func secretData(u *unstructured.Unstructured) (map[string]string, error) {
	encoded, _, err := unstructured.NestedStringMap(u.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rollout.RefOf(u), err)
	}
	data := map[string]string{}
	for k, v := range encoded {
		if data[k], err = decode(v); err != nil {
			return nil, fmt.Errorf("%s: %w", rollout.RefOf(u), err)
		}
	}
	return data, nil
}

func diffConfig(before map[string]string, after []configgen.File, redact func(string) string) []FileChange {
	var all []FileChange
	known := map[string]bool{}
	for _, f := range after {
		key := kustomize.Key(f.Path)
		known[key] = true
		old, had := before[key]
		if !had || old != f.Content {
			all = append(all, diffFile(f.Path, had, true, old, f.Content, redact))
		}
	}
	for key := range before {
		if !known[key] {
			all = append(all, FileChange{Path: key, Action: rollout.ActionDelete})
		}
	}
	slices.SortFunc(all, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return all
}
