package plan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// LabelConfiguration marks Secrets with the configuration of a host. Secrets of other contributors,
// which also have the cluster's label, do not have it.
const LabelConfiguration = "regiond.dev/configuration"

// Annotations of such a Secret, for readers that do not read the configuration itself.
const (
	// AnnotationDigest is the digest of the configuration.
	AnnotationDigest = "regiond.dev/configuration-digest"
	// AnnotationRelease is the OpenStack release that it is for.
	AnnotationRelease = "regiond.dev/release"
	// AnnotationRegistration is the host's registration that it was rendered with.
	AnnotationRegistration = "regiond.dev/registration"
	// AnnotationNetwork is the digest of the parts that carry guests' traffic, see NetworkDigest.
	AnnotationNetwork = "regiond.dev/network-digest"
	// AnnotationGiven is when it was written, AnnotationWasUp whether the host was up then, and
	// AnnotationGeneration the cluster's generation that it was written for. With these, NextBatch
	// recognizes a canary after a restart of regiond.
	AnnotationGiven      = "regiond.dev/given"
	AnnotationWasUp      = "regiond.dev/was-up"
	AnnotationGeneration = "regiond.dev/generation"
)

// NodeWrite is a configuration to write for a host.
type NodeWrite struct {
	configuration.Configuration
	// Up: the host is up now, so that its being up with this configuration is a proof.
	Up bool
}

// carriers are the services whose restart cuts guests off from their networks. Open vSwitch's
// kernel module keeps its flows for a few seconds only.
var carriers = []string{"ovsdb-server.service", "ovs-vswitchd.service", "regiond-openvswitch.service"}

// NetworkDigest returns a digest of the parts of a configuration that carry guests' traffic: if it
// changes, the host cuts its guests off.
func NetworkDigest(conf configuration.Configuration) string {
	h := sha256.New()
	for _, s := range conf.Services {
		if slices.Contains(carriers, s.Name) {
			fmt.Fprintf(h, "%s %s\n", s.Name, conf.Digest(s)) // writing to a hash never fails (hash.Hash)
		}
	}
	for _, f := range conf.Files {
		if f.Network {
			fmt.Fprintf(h, "%q %q %d\n%s\n", f.Path, attributes(f), len(f.Content), f.Content)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ApplyNodes writes the configurations of a cluster's hosts that differ, and removes those of hosts
// that are no longer in the cluster, whose agents keep their current configuration. It returns the
// names of both. A host without a configuration in nodes keeps its own.
func ApplyNodes(ctx context.Context, c client.Client, cluster *region.OpenStackCluster, nodes map[string]NodeWrite,
	hosts []openstack.Host, now time.Time) ([]string, error) {
	var changed []string
	for _, h := range hosts {
		write, ok := nodes[h.Name]
		if !ok {
			continue
		}
		wrote, err := applyNode(ctx, c, cluster, write, h, now)
		if err != nil {
			return changed, fmt.Errorf("configuration of host %s: %w", h.Name, err)
		}
		if wrote {
			changed = append(changed, h.Name)
		}
	}
	gone, err := formerNodes(ctx, c, cluster.Name, hosts)
	if err != nil {
		return changed, err
	}
	for _, s := range gone {
		if err := RemoveNode(ctx, c, cluster.Name, &s); err != nil {
			return changed, err
		}
		changed = append(changed, s.Name)
	}
	return changed, nil
}

func applyNode(ctx context.Context, c client.Client, cluster *region.OpenStackCluster, conf NodeWrite, h openstack.Host,
	now time.Time) (wrote bool, err error) {
	content, digest, err := conf.Encode()
	if err != nil {
		return false, err
	}
	live := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: h.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	owner := host.Owner(&region.Host{ObjectMeta: metav1.ObjectMeta{Name: h.Name, UID: h.UID}})
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"data": map[string]any{configuration.SecretKey: base64.StdEncoding.EncodeToString(content)}}}
	u.SetNamespace(host.Namespace)
	u.SetName(h.Name)
	u.SetLabels(map[string]string{openstack.LabelCluster: cluster.Name, openstack.LabelManagedBy: openstack.ManagedBy, LabelConfiguration: "true"})
	u.SetAnnotations(map[string]string{
		AnnotationDigest: digest, AnnotationRelease: string(cluster.InForce()), AnnotationRegistration: h.Registration,
		AnnotationNetwork: NetworkDigest(conf.Configuration),
	})
	u.SetOwnerReferences([]metav1.OwnerReference{owner})
	owned := slices.ContainsFunc(live.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	if err == nil && bytes.Equal(live.Data[configuration.SecretKey], content) && owned &&
		contains(live.Labels, u.GetLabels()) && contains(live.Annotations, u.GetAnnotations()) {
		return false, nil
	}
	if err := recordCompute(ctx, c, cluster.Name, h.Name); err != nil {
		return false, err
	}
	annotations := u.GetAnnotations()
	annotations[AnnotationGiven] = now.UTC().Format(time.RFC3339)
	annotations[AnnotationWasUp] = strconv.FormatBool(conf.Up)
	annotations[AnnotationGeneration] = strconv.FormatInt(cluster.Generation, 10)
	u.SetAnnotations(annotations)
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(region.FieldManager), client.ForceOwnership)
	return err == nil, err
}

func contains(m, part map[string]string) bool {
	for k, v := range part {
		if m[k] != v {
			return false
		}
	}
	return true
}

// formerNodes returns the configurations of hosts that are no longer in the cluster.
func formerNodes(ctx context.Context, c client.Client, cluster string, hosts []openstack.Host) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := c.List(ctx, &list, client.InNamespace(host.Namespace), client.MatchingLabels{openstack.LabelCluster: cluster, LabelConfiguration: "true"})
	if err != nil {
		return nil, fmt.Errorf("configurations of hosts: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(s corev1.Secret) bool {
		return slices.ContainsFunc(hosts, func(h openstack.Host) bool { return h.Name == s.Name })
	}), nil
}

// NodeChange is the change of a host.
type NodeChange struct {
	Host     string          `json:"host"`
	Action   rollout.Action  `json:"action"`
	Files    []FileChange    `json:"files,omitempty"`
	Services []ServiceChange `json:"services,omitempty"`
	// CutsGuests: services that carry guests' traffic restart. The host gets the change when it has no
	// guests, or by consent.
	CutsGuests bool `json:"cutsGuests,omitempty"`
}

// ServiceChange is an action on a service: start, restart, reload or stop.
type ServiceChange struct {
	Name   string `json:"name"`
	Action string `json:"action"`
}

// DiffNode returns the changes that take a host from one configuration to another. redact is
// applied to all texts.
func DiffNode(name string, before, after configuration.Configuration, redact func(string) string) NodeChange {
	n := NodeChange{Host: name, Action: rollout.ActionNone}
	was, is := map[string]configuration.File{}, map[string]configuration.File{}
	for _, f := range before.Files {
		was[f.Path] = f
	}
	for _, f := range after.Files {
		is[f.Path] = f
	}
	paths := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		a, had := was[p]
		b, has := is[p]
		if a == b {
			continue
		}
		f := diffFile(p, had, has, a.Content, b.Content, redact)
		if f.Attributes == "" && had && has && attributes(a) != attributes(b) {
			f.Attributes = attributes(a) + " → " + attributes(b)
		}
		n.Files = append(n.Files, f)
	}
	n.Services = diffServices(before, after)
	if len(n.Files) > 0 || len(n.Services) > 0 {
		n.Action = rollout.ActionUpdate
		n.CutsGuests = NetworkDigest(before) != NetworkDigest(after)
		if len(before.Files) == 0 {
			n.Action, n.CutsGuests = rollout.ActionCreate, false
		}
	}
	return n
}

func attributes(f configuration.File) string { return f.Mode + " " + f.Owner + ":" + f.Group }

// diffServices mirrors the agent, which restarts the services that read a changed file, and no
// others.
func diffServices(before, after configuration.Configuration) []ServiceChange {
	var all []ServiceChange
	for _, s := range after.Services {
		i := slices.IndexFunc(before.Services, func(o configuration.Service) bool { return o.Name == s.Name })
		switch {
		case i < 0:
			all = append(all, ServiceChange{s.Name, "start"})
		case before.Digest(before.Services[i]) == after.Digest(s):
		case s.Reload:
			all = append(all, ServiceChange{s.Name, "reload"})
		default:
			all = append(all, ServiceChange{s.Name, "restart"})
		}
	}
	for _, s := range before.Services {
		if !slices.ContainsFunc(after.Services, func(o configuration.Service) bool { return o.Name == s.Name }) {
			all = append(all, ServiceChange{s.Name, "stop"})
		}
	}
	return all
}

// planNodes compares the desired configurations of a cluster's hosts with the stored ones.
func planNodes(ctx context.Context, c client.Client, cluster string, s *openstack.State, hosts []openstack.Host) ([]NodeChange, error) {
	var all []NodeChange
	for _, h := range hosts {
		after, ok := s.Nodes[h.Name]
		if !ok {
			continue
		}
		before, err := LiveConfiguration(ctx, c, h.Name)
		if err != nil {
			return nil, fmt.Errorf("configuration of host %s: %w", h.Name, err)
		}
		if n := DiffNode(h.Name, before, after, s.Redact); n.Action != rollout.ActionNone {
			all = append(all, n)
		}
	}
	gone, err := formerNodes(ctx, c, cluster, hosts)
	for _, g := range gone {
		all = append(all, NodeChange{Host: g.Name, Action: rollout.ActionDelete})
	}
	return all, err
}

// LiveConfiguration returns the configuration that is stored for a host. It is empty if the host
// has none, or one that can't be read and will be replaced.
func LiveConfiguration(ctx context.Context, c client.Client, name string) (configuration.Configuration, error) {
	s := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return configuration.Configuration{}, nil
	}
	if err != nil {
		return configuration.Configuration{}, err
	}
	conf, _, err := configuration.Decode(s.Data[configuration.SecretKey])
	if err != nil {
		return configuration.Configuration{}, nil
	}
	return conf, nil
}
