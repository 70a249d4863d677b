package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region/event"
)

// execute carries out a decision, in a fixed order.
func (t *reconciliation) execute(ctx context.Context, d Decision) error {
	if d.Record {
		if err := t.recordDatabase(ctx); err != nil {
			return err
		}
	}
	if err := t.endJobs(ctx, d.End); err != nil {
		return err
	}
	if len(d.Apply) > 0 {
		for _, f := range folders(t.DataDir, t.cluster.Name, t.facts.Database.Creatable()) {
			if err := t.Own(f); err != nil {
				return err
			}
		}
	}
	for _, p := range d.Apply {
		if err := t.applyPart(ctx, p); err != nil {
			return err
		}
	}
	if len(d.Apply) > 0 {
		if err := t.replaceStuck(ctx); err != nil {
			return err
		}
	}
	if err := t.balance(ctx); err != nil {
		return err
	}
	t.ensureHostUsers(ctx)
	if err := t.configure(ctx, d.Configure); err != nil {
		return err
	}
	if err := t.leaveCluster(ctx, d.Leave); err != nil {
		return err
	}
	if err := t.returned(ctx); err != nil {
		return err
	}
	if d.Map {
		if err := t.mapHosts(ctx, d.MapAgain); err != nil {
			return err
		}
	}
	if d.Prune {
		if err := t.pruneOnce(ctx); err != nil {
			return err
		}
		t.pruneEndpoints(ctx)
	}
	return t.moveFernet(ctx, d.Fernet)
}

// pruneEndpoints removes endpoints that are no longer declared, once neither pods nor nodes are
// configured for them any more. That it fails is not trouble of its own: the gate of Keystone tells
// that Keystone does not answer, and it is tried again.
func (t *reconciliation) pruneEndpoints(ctx context.Context) {
	of := t.seen.composed.of
	configured := !slices.ContainsFunc(t.facts.Nodes, func(n NodeFacts) bool { return n.Applied != "" && n.Applied != n.Desired })
	if t.seen.session == nil || !t.reachable || !configured || t.seen.endpoints.holds(of, t.Now()) {
		return
	}
	removed, err := t.Cloud.Prune(ctx, t.seen.session, Catalogue(t.cluster, t.state.Values.Lookup))
	for _, r := range removed {
		t.log.Info("keystone changed", slog.String("change", r))
	}
	if err != nil {
		t.log.Warn("endpoints that are no longer declared could not be removed", slog.Any("error", err))
		return
	}
	t.seen.endpoints = check{of: of, time: t.Now()}
}

// applyPart applies a part of the desired state, unless it was found to be as desired a moment ago.
func (t *reconciliation) applyPart(ctx context.Context, p Part) error {
	var objects []*unstructured.Unstructured
	for _, o := range t.state.Gate(p.Gate) {
		job := o.GetKind() == "Job"
		if p.Job != "" && job && o.GetName() == p.Job || p.Job == "" && !job {
			objects = append(objects, o)
		}
	}
	of, err := t.digest(ctx, objects)
	if err != nil {
		return err
	}
	if t.seen.applied[p].holds(of, t.Now()) {
		return nil
	}
	if p.Job != "" {
		if err := t.removeFailed(ctx, p.Job); err != nil {
			return err
		}
	}
	written, err := rollout.Apply(ctx, t.Live, objects)
	for _, w := range written {
		t.log.Info("applied", slog.String("object", w.String()), slog.String("gate", p.Gate))
	}
	if len(written) > 0 {
		// Another desired state came between, even if this one was pruned for a moment ago.
		t.seen.pruned, t.seen.endpoints = check{}, check{}
	}
	if err != nil {
		return err
	}
	t.seen.applied[p] = check{of: of, time: t.Now()}
	return nil
}

// replaceStuck replaces pods that would keep a StatefulSet from what was applied.
func (t *reconciliation) replaceStuck(ctx context.Context) error {
	for _, o := range t.state.Objects {
		if o.GetKind() != "StatefulSet" || !slices.ContainsFunc(t.facts.Workloads, func(w Workload) bool { return w.Name == o.GetName() && !w.done() }) {
			continue
		}
		pod, err := rollout.ReplaceStuck(ctx, t.Live, o)
		if err != nil {
			return err
		}
		if pod != "" {
			t.log.Info("replaced a pod of an older revision that was not ready", slog.String("pod", pod))
		}
	}
	return nil
}

// digest of objects and of what is there in their place: another one, another generation of it or
// nothing is a reason to apply them again.
func (t *reconciliation) digest(ctx context.Context, objects []*unstructured.Unstructured) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	for _, o := range objects {
		there, err := t.presence(ctx, o)
		if err != nil {
			return "", err
		}
		if err := e.Encode([]any{o.Object, there}); err != nil {
			return "", err
		}
		i := slices.IndexFunc(t.facts.Workloads, func(w Workload) bool { return w.Name == o.GetName() })
		if i >= 0 {
			if err := e.Encode([]any{t.facts.Workloads[i].Present, t.facts.Workloads[i].Failed, t.facts.Workloads[i].Generation}); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// removeFailed makes room for a job that is to be tried again.
func (t *reconciliation) removeFailed(ctx context.Context, name string) error {
	job := &batchv1.Job{}
	key := client.ObjectKey{Namespace: openstack.Namespace(t.cluster.Name), Name: name}
	if err := t.Live.Get(ctx, key, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	if failedAt(job).IsZero() {
		return nil
	}
	t.log.Info("failed job is tried again", slog.String("job", name))
	return client.IgnoreNotFound(t.Live.Delete(ctx, job, client.Preconditions{UID: &job.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// pruneOnce protects the images of the desired state from garbage collection, and removes objects that are no longer desired.
func (t *reconciliation) pruneOnce(ctx context.Context) error {
	of := t.seen.composed.of
	if t.seen.pruned.holds(of, t.Now()) {
		return nil
	}
	// What runs stays on this host: the registry is regiond's own, and may be down when a pod is to start again.
	if err := t.Pin(ctx, t.state.Images); err != nil {
		return err
	}
	pruned, err := rollout.Prune(ctx, t.Live, plan.Owned(t.cluster.Name), t.state.Objects)
	for _, p := range pruned {
		event.Act(t.Events, t.cluster, "Removed", p.String()+" is no longer declared", nil)
		t.log.Info("removed: it is no longer declared", slog.String("object", p.String()))
	}
	if err != nil {
		return err
	}
	// Of hosts that are no longer there.
	if _, err := plan.ApplyNodes(ctx, t.Live, t.cluster, nil, t.held(), t.Now()); err != nil {
		return err
	}
	if err := t.Templates.Prune(ctx, t.Now()); err != nil {
		return err
	}
	t.seen.pruned = check{of: of, time: t.Now()}
	return nil
}

// LoadBalancerClass of Services that are served at the cluster's address on the seed host: kube-proxy there sends what comes
// for the address and port of such a Service to its pods. Nothing has to listen.
const LoadBalancerClass = "regiond.dev/seed"

// balance writes the cluster's address into the status of its Services.
func (t *reconciliation) balance(ctx context.Context) error {
	var services corev1.ServiceList
	if err := t.Client.List(ctx, &services, client.InNamespace(openstack.Namespace(t.cluster.Name)),
		client.MatchingLabels{openstack.LabelCluster: t.cluster.Name}); err != nil {
		return err
	}
	want := []corev1.LoadBalancerIngress{{IP: t.cluster.Spec.Address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	for _, s := range services.Items {
		if ptr.Deref(s.Spec.LoadBalancerClass, "") != LoadBalancerClass || t.cluster.Spec.Address == "" || sameIngress(s.Status.LoadBalancer.Ingress,
			want) {
			continue
		}
		before := s.DeepCopy()
		s.Status.LoadBalancer.Ingress = want
		if err := t.Live.Status().Patch(ctx, &s, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("service %s/%s: write its address: %w", s.Namespace, s.Name, err)
		}
		t.log.Info("service is served", slog.String("service", s.Name), slog.String("address", t.cluster.Spec.Address))
	}
	return nil
}

func sameIngress(a, b []corev1.LoadBalancerIngress) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.LoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname && ptr.Deref(a.IPMode, "") == ptr.Deref(b.IPMode, "")
	})
}

// configure writes the configuration of nodes.
func (t *reconciliation) configure(ctx context.Context, nodes []NodeConfigure) error {
	if len(nodes) == 0 {
		return nil
	}
	writes := map[string]plan.NodeWrite{}
	for _, n := range nodes {
		writes[n.Name] = plan.NodeWrite{Configuration: t.state.Nodes[n.Name], Up: n.Up}
	}
	written, err := plan.ApplyNodes(ctx, t.Live, t.cluster, writes, t.held(), t.Now())
	for _, name := range written {
		t.log.Info("node is configured", slog.String("host", name))
	}
	return err
}

// held are the hosts whose configuration is the cluster's: its own, and those that leave it.
func (t *reconciliation) held() []openstack.Host {
	hosts := slices.Clone(t.input.Hosts)
	for _, l := range t.facts.Leaving {
		hosts = append(hosts, openstack.Host{Name: l.Name})
	}
	return hosts
}
