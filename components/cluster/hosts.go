package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// nodeFacts collects what is known of the cluster's hosts.
func (t *reconciliation) nodeFacts(ctx context.Context) error {
	for _, in := range t.input.Hosts {
		n := NodeFacts{Name: in.Name, Address: in.Address}
		if t.state != nil {
			n.Desired = t.state.Digests[in.Name]
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := t.Metadata.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: in.Name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		n.stored(secret.Annotations, t.cluster.Generation)
		n.Registers = in.Registration != secret.Annotations[plan.AnnotationRegistration]
		if t.state == nil {
			n.Desired = n.Stored // it is what the host is to run as long as nothing else is known
		} else if n.Desired != n.Stored && n.Stored != "" {
			if n.Cuts, err = t.cuts(ctx, in.Name, secret.Annotations[plan.AnnotationNetwork]); err != nil {
				return err
			}
		}
		h := &region.Host{}
		if err := t.Client.Get(ctx, client.ObjectKey{Name: in.Name}, h); client.IgnoreNotFound(err) != nil {
			return err
		}
		if n.Others, err = plan.ComputeOf(ctx, t.Metadata, h, in.Name); err != nil {
			return err
		}
		n.Others = slices.DeleteFunc(n.Others, func(of string) bool { return of == t.cluster.Name })
		n.Tunnels = h.Status.Tunnels
		if c := h.Status.Configuration; c != nil {
			n.Applied, n.Started = c.Digest, started(c.Processes)
		}
		if c := meta.FindStatusCondition(h.Status.Conditions, region.ConditionConfigured); c != nil {
			n.Configured, n.Message = string(c.Status), c.Message
		}
		t.facts.Nodes = append(t.facts.Nodes, n)
	}
	changing := slices.ContainsFunc(t.facts.Nodes, func(n NodeFacts) bool { return n.Desired != n.Stored || n.Applied != n.Stored })
	known, problem := t.cloudHosts(ctx, changing)
	if problem != nil {
		t.facts.NodesError = "Nova and Neutron could not be asked: " + problem.Error()
	}
	for i := range t.facts.Nodes {
		t.facts.Nodes[i].fill(known[t.facts.Nodes[i].Name])
	}
	slices.SortFunc(t.facts.Nodes, func(a, b NodeFacts) int { return strings.Compare(a.Name, b.Name) })
	if of := progress(t.facts.Nodes); of != t.seen.hosts.of {
		t.seen.hosts.of, t.seen.hosts.changed = of, t.Now()
	}
	if err := t.leavingFacts(ctx); err != nil {
		return err
	}
	t.facts.UsersMissing = t.usersMissing()
	return t.mapping(ctx)
}

// stored reads what the Secret with a host's configuration says of itself.
func (n *NodeFacts) stored(annotations map[string]string, generation int64) {
	n.Stored, n.StoredRelease = annotations[plan.AnnotationDigest], annotations[plan.AnnotationRelease]
	n.WasUp = annotations[plan.AnnotationWasUp] == "true"
	n.Current = annotations[plan.AnnotationGeneration] == strconv.FormatInt(generation, 10)
	if given, err := time.Parse(time.RFC3339, annotations[plan.AnnotationGiven]); err == nil {
		n.Given = given
	}
}

// cuts says whether a host's next configuration restarts what carries guests' traffic. An earlier
// regiond wrote no digest of that.
func (t *reconciliation) cuts(ctx context.Context, name, network string) (bool, error) {
	next, known := t.state.Nodes[name]
	if !known {
		return false, nil
	}
	if network == "" {
		before, err := plan.LiveConfiguration(ctx, t.Live, name)
		if err != nil {
			return false, fmt.Errorf("configuration of host %s: %w", name, err)
		}
		network = plan.NetworkDigest(before)
	}
	return network != plan.NetworkDigest(next), nil
}

func (n *NodeFacts) fill(h gate.Host) {
	n.Mapped, n.Guests = h.Mapped, h.Guests
	if s := h.Service; s != nil {
		n.Service = &ComputeService{ID: s.ID, Up: s.State == "up", Enabled: s.Status == "enabled", Reason: s.DisabledReason,
			Reported: s.UpdatedAt}
	}
	for _, a := range h.Agents {
		n.Agents = append(n.Agents, Agent{Binary: a.Binary, Alive: a.Alive, Reported: a.HeartbeatTimestamp})
	}
}

// started is when processes were started, by the name of their unit, which is that of the binary.
func started(processes []region.HostProcess) map[string]time.Time {
	by := map[string]time.Time{}
	for _, p := range processes {
		if binary, ok := strings.CutSuffix(p.Service, ".service"); ok && p.Started != nil {
			by[binary] = p.Started.Time
		}
	}
	return by
}

// hostsAge is the age at which what Nova and Neutron said of hosts is asked for again, given how long
// nothing has changed. Their lists are long, and a host that was lost may stay what it is for weeks:
// the longer nothing happens, the more rarely they are asked, as rarely as if all were well.
func hostsAge(ready, changing bool, unchanged time.Duration) time.Duration {
	least := failedPoll
	switch {
	case ready && changing:
		return 0
	case ready:
		return nodePoll
	case changing:
		least = rolloutPoll
	}
	return min(nodePoll, max(least, unchanged/12))
}

// progress of nodes: another text means that something has happened to one of them.
func progress(nodes []NodeFacts) string {
	h := sha256.New()
	for _, n := range nodes {
		fmt.Fprintln(h, n.Name, n.Desired, n.Stored, n.Applied, n.Configured, n.Mapped, n.Guests, n.Started) // to a hash, which does not fail (hash.Hash)
		if s := n.Service; s != nil {
			fmt.Fprintln(h, s.ID, s.Up, s.Enabled)
		}
		for _, a := range n.Agents {
			fmt.Fprintln(h, a.Binary, a.Alive)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// cloudHosts asks Nova and Neutron for their hosts, not more often than needed. While hosts change,
// each one waits for the answer.
func (t *reconciliation) cloudHosts(ctx context.Context, changing bool) (map[string]gate.Host, error) {
	seen := &t.seen.hosts
	if len(t.input.Hosts) == 0 || !t.reachable {
		return nil, nil
	}
	for _, g := range []string{region.ConditionNova, region.ConditionNeutron} {
		if p, ok := t.facts.Probes[g]; !ok || p.Err != "" {
			return seen.by, fmt.Errorf("the gate %s is not passed", g)
		}
	}
	c := meta.FindStatusCondition(t.cluster.Status.Conditions, region.ConditionNodes)
	ready := c != nil && c.Status == metav1.ConditionTrue
	changing = changing || c != nil && c.Reason == region.ReasonNodesChanging
	now := t.Now()
	age := hostsAge(ready, changing, now.Sub(seen.changed))
	if wait := age - now.Sub(seen.time); wait > 0 {
		t.facts.NodesAgain = wait
		return seen.by, seen.err
	}
	t.facts.NodesAgain = age
	ctx, cancel := context.WithTimeout(ctx, gate.Timeout)
	defer cancel()
	t.login(ctx)
	if t.seen.session == nil {
		return seen.by, errors.New("keystone issued no token")
	}
	by, err := t.Cloud.Hosts(ctx, t.target, t.seen.session)
	seen.time, seen.err = now, err
	if err == nil {
		seen.by = by
	}
	return seen.by, err
}
