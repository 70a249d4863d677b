package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// A host leaves a cluster when the cluster's profiles no longer name its profile. Its guests are
// looked for as before it is retired, and it stays what it is while there are some.

// leavingReason is what Nova shows of the compute service of a host that leaves its cluster. A
// service with it is enabled again when the host comes back.
const leavingReason = "regiond: the host's profile is no longer one of this cluster"

// leavingPoll is the time between looks at a host that leaves, if nothing else happens.
const leavingPoll = 20 * time.Second

// Leaving is what is known of a host that is to leave the cluster.
type Leaving struct {
	Name string
	// Unasked is why the cluster could not be asked for the host's guests, empty if it was.
	Unasked string
	// Enabled: its compute service may still be given guests.
	Enabled bool
	// Guests on it, in words.
	Guests []string
	// Known: the cluster still has services, agents or resources of it.
	Known bool
	// Other is the cluster whose configuration the host has meanwhile, if that is another one.
	Other string
	// Stopped: the stored configuration is the one without services. Applied: the host runs what is stored.
	Stopped, Applied bool
}

// LeaveStep is the next step of a host that leaves.
type LeaveStep string

// Steps, in order. Each is taken when the one before was seen to have its effect.
const (
	LeaveWait    LeaveStep = ""        // for someone, or for the host
	LeaveDisable LeaveStep = "disable" // nothing new is scheduled on it
	LeaveStop    LeaveStep = "stop"    // its agent ends the cluster's services
	LeaveForget  LeaveStep = "forget"  // what the cluster knows of it is deleted
	LeaveRelease LeaveStep = "release" // it belongs to no cluster any more
)

// leave decides what is next for a host that is to leave the cluster, and says how it stands.
func leave(l Leaving) (LeaveStep, string) {
	const leaves = "its profile is no longer one of this cluster, and it leaves: "
	switch {
	case l.Unasked != "":
		return LeaveWait, leaves + "whether guests are on it can't be asked: " + l.Unasked
	case l.Enabled:
		return LeaveDisable, leaves + "its compute service is about to be disabled"
	case len(l.Guests) > 0:
		return LeaveWait, fmt.Sprintf("its profile is no longer one of this cluster, but %d guests are on it, and it stays until they are gone: %s; "+
			"declare its profile for this cluster again, or remove its guests: %s", len(l.Guests), computehost.Listed(l.Guests), computehost.Remedy)
	case l.Other == "" && !l.Stopped:
		return LeaveStop, leaves + "its services are about to be stopped"
	case l.Other == "" && !l.Applied:
		return LeaveWait, leaves + "waiting for its agent to stop the cluster's services; if the host is lost: regiond server retire " + l.Name
	case l.Known:
		return LeaveForget, leaves + "its services are about to be deleted"
	}
	return LeaveRelease, leaves + "it is about to be released"
}

// leaving says what is next for the hosts that leave, and tells of them beside the cluster's nodes.
func (d *decider) leaving() {
	for _, l := range d.f.Leaving {
		step, message := leave(l)
		if step != LeaveWait && d.f.Trouble == nil {
			d.leave = append(d.leave, Leave{l.Name, step})
		}
		d.nodeStates = append(d.nodeStates, region.OpenStackNode{Name: l.Name, Message: clip(message)})
		d.again(observePoll)
	}
}

// Leave is a step of one host.
type Leave struct {
	Host string
	Step LeaveStep
}

// leavingFacts collects what is known of hosts that were given compute services of this cluster and are no longer its hosts.
func (t *reconciliation) leavingFacts(ctx context.Context) error {
	if t.facts.Trouble != nil {
		return nil // it isn't known which hosts are the cluster's
	}
	var hosts region.HostList
	if err := t.Client.List(ctx, &hosts); err != nil {
		return err
	}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if slices.ContainsFunc(t.input.Hosts, func(in openstack.Host) bool { return in.Name == h.Name }) {
			continue
		}
		of, err := plan.ComputeOf(ctx, t.Metadata, h, h.Name)
		if err != nil {
			return err
		}
		if !slices.Contains(of, t.cluster.Name) {
			continue
		}
		l := Leaving{Name: h.Name}
		if err := t.leavingConfiguration(ctx, h, &l); err != nil {
			return err
		}
		t.survey(ctx, h.Name, &l)
		t.facts.Leaving = append(t.facts.Leaving, l)
	}
	slices.SortFunc(t.facts.Leaving, func(a, b Leaving) int { return strings.Compare(a.Name, b.Name) })
	maps.DeleteFunc(t.seen.leaving, func(name string, _ *surveyed) bool { // it stays, or is gone
		return !slices.ContainsFunc(t.facts.Leaving, func(l Leaving) bool { return l.Name == name })
	})
	return nil
}

// leavingConfiguration says what the host is to run, and whether it does.
func (t *reconciliation) leavingConfiguration(ctx context.Context, h *region.Host, l *Leaving) error {
	stored := &metav1.PartialObjectMetadata{}
	stored.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := t.Metadata.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: h.Name}, stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	if of := stored.Labels[openstack.LabelCluster]; of != t.cluster.Name {
		l.Other = of
		return nil
	}
	_, nothing, err := configuration.Configuration{}.Encode()
	if err != nil {
		return err
	}
	digest := stored.Annotations[plan.AnnotationDigest]
	l.Stopped = digest == nothing
	l.Applied = h.Status.Configuration != nil && h.Status.Configuration.Digest == digest
	return nil
}

// survey asks the cluster for a host's guests, not more often than needed.
func (t *reconciliation) survey(ctx context.Context, name string, l *Leaving) {
	seen := t.seen.leaving[name]
	if seen == nil || t.Now().Sub(seen.time) >= leavingPoll {
		seen = &surveyed{time: t.Now()}
		seen.cloud, seen.err = t.ask(ctx, name)
		t.seen.leaving[name] = seen
	}
	if seen.err != nil {
		l.Unasked = seen.err.Error()
		return
	}
	l.Guests, l.Known = seen.cloud.Guests(), !seen.cloud.Empty()
	l.Enabled = slices.ContainsFunc(seen.cloud.Services, func(s services.Service) bool { return s.Status != "disabled" })
}

func (t *reconciliation) ask(ctx context.Context, name string) (*computehost.Cloud, error) {
	for _, g := range []string{region.ConditionPlacement, region.ConditionNova, region.ConditionNeutron} {
		if p, ok := t.facts.Probes[g]; !ok || p.Err != "" {
			return nil, fmt.Errorf("the gate %s is not passed", g)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, gate.Timeout)
	defer cancel()
	t.login(ctx)
	if t.seen.session == nil {
		return nil, errors.New("keystone issued no token")
	}
	return t.Cloud.Ask(ctx, t.target, t.seen.session, t.cluster.Name, name)
}

// leaveCluster takes a step for each host that leaves. After each, it is looked again.
func (t *reconciliation) leaveCluster(ctx context.Context, steps []Leave) error {
	var errs []error
	for _, s := range steps {
		seen := t.seen.leaving[s.Host]
		delete(t.seen.leaving, s.Host)
		if err := t.leaveStep(ctx, s, seen.cloud); err != nil {
			errs = append(errs, fmt.Errorf("host %s leaves the cluster: %s: %w", s.Host, s.Step, err))
			continue
		}
		t.log.Info("host leaves the cluster", slog.String("host", s.Host), slog.String("step", string(s.Step)))
	}
	return errors.Join(errs...)
}

func (t *reconciliation) leaveStep(ctx context.Context, s Leave, cloud *computehost.Cloud) error {
	ctx, cancel := context.WithTimeout(ctx, gate.Timeout)
	defer cancel()
	switch s.Step {
	case LeaveDisable:
		return t.Cloud.Close(ctx, cloud, s.Host, leavingReason)
	case LeaveStop:
		return plan.StopNode(ctx, t.Live, t.cluster, s.Host, t.Now())
	case LeaveForget:
		return t.Cloud.Forget(ctx, cloud, s.Host)
	case LeaveRelease:
		return plan.ReleaseNode(ctx, t.Live, t.cluster.Name, s.Host)
	}
	return nil
}

// returned enables the compute services of hosts that have come back after they were to leave.
func (t *reconciliation) returned(ctx context.Context) error {
	for _, n := range t.facts.Nodes {
		if n.Service == nil || n.Service.Enabled || n.Service.Reason != leavingReason || t.seen.session == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, gate.Timeout)
		err := t.Cloud.Open(ctx, t.target, t.seen.session, n.Service.ID)
		cancel()
		if err != nil {
			return fmt.Errorf("enable %s on %s again: %w", service.NovaCompute, n.Name, err)
		}
		t.seen.hosts.time = time.Time{} // it is asked for again
		t.log.Info("host is one of the cluster again, its compute service is enabled", slog.String("host", n.Name))
	}
	return nil
}
