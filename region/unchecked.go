package region

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notChecked is said of what the running regiond has not looked at.
const notChecked = "not checked yet: regiond has not looked at it since it started; nothing to do"

// Unchecked marks what a status says from before a time as not checked yet: it is what an earlier
// regiond saw, and the host may have been restarted since. regiond does this with all clusters at
// its start. Whoever reads a status while regiond starts does it with the time of that start. Times
// of conditions have no fractions of seconds.
func (c *OpenStackCluster) Unchecked(before, now time.Time) {
	old := false
	for i := range c.Status.Conditions {
		k := &c.Status.Conditions[i]
		if !k.LastTransitionTime.Time.Before(before.Truncate(time.Second)) {
			continue
		}
		old = true
		if k.Reason != ReasonNotChecked {
			k.Status, k.Reason, k.Message, k.LastTransitionTime = metav1.ConditionUnknown, ReasonNotChecked, notChecked, metav1.NewTime(now)
		}
	}
	if !old {
		return
	}
	for i := range c.Status.Services {
		c.Status.Services[i].Ready, c.Status.Services[i].Message = false, notChecked
	}
	for i := range c.Status.Nodes {
		c.Status.Nodes[i].Ready, c.Status.Nodes[i].Message = false, notChecked
	}
}
