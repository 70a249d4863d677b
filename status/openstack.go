package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// OpenStack is one OpenStack cluster of the region.
type OpenStack struct {
	Name    string                  `json:"name"`
	Release region.OpenStackRelease `json:"release"`
	Address string                  `json:"address,omitempty"`
	Ready   bool                    `json:"ready"`
	Message string                  `json:"message,omitempty"`
	// Gates in the order in which they are passed, then the cluster's other conditions.
	Gates    []Gate                    `json:"gates"`
	Services []region.OpenStackService `json:"services"`
	Nodes    []region.OpenStackNode    `json:"nodes"`
	// FernetKeys of Keystone, nil if the controller has not looked at them.
	FernetKeys *region.OpenStackFernetKeys `json:"fernetKeys,omitempty"`
}

// Gate is one gate of an OpenStack cluster: what it has proved, or what it is waiting for.
type Gate struct {
	Name   string    `json:"name"`
	Passed bool      `json:"passed"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Message says what was proved, or what the gate is waiting for and what to do.
	Message string `json:"message,omitempty"`
}

func openstack(c region.OpenStackCluster) OpenStack {
	o := OpenStack{Name: c.Name, Release: c.Spec.Release, Address: c.Spec.Address, Message: "waiting for the controller to reconcile it",
		Gates: []Gate{}, Services: append([]region.OpenStackService{}, c.Status.Services...), Nodes: append([]region.OpenStackNode{}, c.Status.Nodes...),
		FernetKeys: c.Status.FernetKeys}
	for _, name := range slices.Concat(region.Gates, []string{region.ConditionConfigured, region.ConditionNodes}) {
		g := Gate{Name: name}
		if k := meta.FindStatusCondition(c.Status.Conditions, name); k != nil {
			g.Passed, g.Reason, g.Since, g.Message = k.Status == metav1.ConditionTrue, k.Reason, k.LastTransitionTime.Time, k.Message
		}
		o.Gates = append(o.Gates, g)
	}
	if k := meta.FindStatusCondition(c.Status.Conditions, region.ConditionReady); k != nil {
		o.Ready, o.Message = k.Status == metav1.ConditionTrue, k.Message
		if c.Status.ObservedGeneration != c.Generation {
			o.Ready, o.Message = false, "waiting for the controller to reconcile the new declaration"
		}
	}
	if o.Ready {
		o.Message = ""
	}
	return o
}

func unreadyOpenStack(all []OpenStack) string {
	for _, c := range all {
		if !c.Ready {
			return fmt.Sprintf("OpenStack cluster %s is not ready: %s", c.Name, c.Message)
		}
	}
	return ""
}

func (w *table) openstack(c OpenStack) {
	w.row()
	w.row("OPENSTACK", "RELEASE", "ADDRESS", "READY", "MESSAGE")
	w.row(c.Name, string(c.Release), dash(c.Address), word(c.Ready, "yes", "no"), dash(c.Message))
	w.row()
	w.row("GATE", "PASSED", "SINCE", "MESSAGE")
	for _, g := range c.Gates {
		w.row(g.Name, word(g.Passed, "yes", "no"), w.age(g.Since), dash(g.Message))
	}
	if len(c.Services) > 0 {
		w.row()
		w.row("SERVICE", "READY", "VERSION", "MESSAGE")
		for _, s := range c.Services {
			w.row(s.Name, word(s.Ready, "yes", "no"), dash(s.Version), dash(s.Message))
		}
	}
	if k := c.FernetKeys; k != nil {
		w.row()
		w.row("KEYS", "SINCE", "NEXT", "MESSAGE")
		w.row("Fernet", w.age(moment(k.Since)), day(k.Next), dash(k.Message))
	}
	if len(c.Nodes) > 0 {
		w.row()
		w.row("COMPUTE HOST", "READY", "MESSAGE")
		nodes := slices.Clone(c.Nodes)
		slices.SortFunc(nodes, func(a, b region.OpenStackNode) int { return cmp.Compare(a.Name, b.Name) })
		for _, n := range nodes {
			w.row(n.Name, word(n.Ready, "yes", "no"), dash(n.Message))
		}
	}
}

func moment(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func day(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.DateOnly)
}
