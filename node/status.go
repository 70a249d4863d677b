package node

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/node/apply"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// refusedInventory is the inventory that the API server did not take, and why. It is left out until it is another one.
type refusedInventory struct {
	inventory *inventory.Inventory
	message   string
}

// buildStatus turns an observation into the host's status. old is what was last written: times of
// unchanged conditions are kept. It is pure.
func buildStatus(o Observation, clockOffset time.Duration, agentVersion, installedImage string, inv *inventory.Inventory, refused refusedInventory,
	conf apply.Report, old region.HostStatus, now time.Time) region.HostStatus {
	healthy, reason, message := Judge(o, clockOffset)
	if refused.inventory != nil && reflect.DeepEqual(inv, refused.inventory) {
		inv = nil
		message += "; its inventory is left out, since the API server did not take it: " + refused.message
	}
	s := region.HostStatus{
		BootID: o.BootID, Kernel: o.Kernel, Image: o.Image, Slot: o.Slot, AgentVersion: agentVersion, Release: o.Release, Addresses: o.Addresses, Inventory: inv,
	}
	if s.Image == "" {
		s.Image = installedImage
	}
	if !o.BootTime.IsZero() {
		s.BootTime = &metav1.Time{Time: o.BootTime}
		// The kernel derives it from the present clock, so it moves when the clock is set.
		if old.BootID == o.BootID && old.BootTime != nil {
			s.BootTime = old.BootTime
		}
	}
	s.Conditions = []metav1.Condition{condition(region.ConditionHealthy, healthy, reason, message, old, now)}
	if conf.Reason != "" {
		s.Conditions = append(s.Conditions, condition(region.ConditionConfigured, conf.Configured, conf.Reason, conf.Message, old, now))
		s.Configuration = attest(conf)
		return s
	}
	// An agent that has just started has not looked yet: what it said before still stands.
	s.Configuration = old.Configuration
	for _, was := range old.Conditions {
		if was.Type == region.ConditionConfigured {
			s.Conditions = append(s.Conditions, was)
		}
	}
	return s
}

func condition(kind string, ok bool, reason, message string, old region.HostStatus, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: bounded.Message(message),
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	if !ok {
		c.Status = metav1.ConditionFalse
	}
	for _, was := range old.Conditions {
		if was.Type == c.Type && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	return c
}

// attest says what runs, in the API's words. Times have whole seconds there.
func attest(r apply.Report) *region.HostConfiguration {
	if r.Digest == "" {
		return nil
	}
	c := &region.HostConfiguration{Digest: r.Digest, Applied: apiTime(r.Applied)}
	for _, p := range r.Processes {
		c.Processes = append(c.Processes, region.HostProcess{Service: p.Name, State: p.Active, PID: int32(p.PID), Started: apiTime(p.Started),
			ConfigDigest: p.Digest, Restarts: int32(p.Restarts), Image: p.Image, Kernel: p.Kernel, Message: bounded.Message(p.Message)})
	}
	return c
}

func apiTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// statusPatch is the merge patch (RFC 7396) that makes of the status in the API server this one. What it has not is null, or what
// an earlier one had would stay. What regiond's controller writes is left alone.
func statusPatch(s region.HostStatus) (map[string]any, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(b, &patch); err != nil {
		return nil, err
	}
	nullMissing(patch, reflect.TypeFor[region.HostStatus]())
	delete(patch, "openstack")
	return patch, nil
}

// nullMissing sets the fields of a type that an object has not. Lists are replaced as a whole.
func nullMissing(object map[string]any, t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		value, there := object[name]
		if !there {
			object[name] = nil
		} else if inner, ok := value.(map[string]any); ok && typ.Kind() == reflect.Struct {
			nullMissing(inner, typ)
		}
	}
}

// sameStatus compares what is meant; times by their instant. What regiond's controller writes is not the agent's.
func sameStatus(a, b region.HostStatus) bool {
	if len(a.Conditions) != len(b.Conditions) || !sameTime(a.BootTime, b.BootTime) {
		return false
	}
	for i := range a.Conditions {
		x, y := a.Conditions[i], b.Conditions[i]
		if !x.LastTransitionTime.Time.Equal(y.LastTransitionTime.Time) {
			return false
		}
		x.LastTransitionTime = y.LastTransitionTime
		if x != y {
			return false
		}
	}
	if !sameConfiguration(a.Configuration, b.Configuration) {
		return false
	}
	a.BootTime, a.Conditions, a.Configuration, a.OpenStack = b.BootTime, b.Conditions, b.Configuration, b.OpenStack
	if len(a.Addresses) == 0 && len(b.Addresses) == 0 {
		a.Addresses = b.Addresses
	}
	return reflect.DeepEqual(a, b)
}

func sameTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Time.Equal(b.Time)
}

func sameConfiguration(a, b *region.HostConfiguration) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest == b.Digest && sameTime(a.Applied, b.Applied) && slices.EqualFunc(a.Processes, b.Processes, func(x, y region.HostProcess) bool {
		if !sameTime(x.Started, y.Started) {
			return false
		}
		x.Started = y.Started
		return x == y
	})
}
