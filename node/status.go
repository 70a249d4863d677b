package node

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/inventory"
	"regiond.dev/regiond/region"
)

// buildStatus turns an observation into the host's status. old is what was last written: times of
// unchanged conditions are kept. It is pure.
func buildStatus(o Observation, clockOffset time.Duration, agentVersion, installedImage string, inv *inventory.Inventory, old region.HostStatus, now time.Time) region.HostStatus {
	s := region.HostStatus{
		BootID: o.BootID, Kernel: o.Kernel, Image: o.Image, Slot: o.Slot, AgentVersion: agentVersion, Addresses: o.Addresses, Inventory: inv,
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
	healthy, reason, message := Judge(o, clockOffset)
	c := metav1.Condition{Type: region.ConditionHealthy, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	if !healthy {
		c.Status = metav1.ConditionFalse
	}
	for _, was := range old.Conditions {
		if was.Type == c.Type && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	s.Conditions = []metav1.Condition{c}
	return s
}

// sameStatus compares what is meant; times by their instant.
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
	a.BootTime, a.Conditions = b.BootTime, b.Conditions
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
