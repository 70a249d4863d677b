package status

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// Host is one host: an installed system that runs the agent.
type Host struct {
	Name      string      `json:"name"`
	Role      region.Role `json:"role,omitempty"`
	Image     string      `json:"image,omitempty"`
	Slot      string      `json:"slot,omitempty"`
	Kernel    string      `json:"kernel,omitempty"`
	Booted    time.Time   `json:"booted,omitzero"`
	Heartbeat time.Time   `json:"heartbeat,omitzero"`
	// Healthy is the condition's status: True, False or Unknown.
	Healthy string `json:"healthy"`
	Message string `json:"message,omitempty"`
}

func host(h region.Host, heartbeat time.Time) Host {
	out := Host{
		Name: h.Name, Role: h.Spec.Role, Image: h.Status.Image, Slot: h.Status.Slot, Kernel: h.Status.Kernel,
		Heartbeat: heartbeat, Healthy: string(metav1.ConditionUnknown), Message: "its agent has not reported yet",
	}
	if h.Status.BootTime != nil {
		out.Booted = h.Status.BootTime.Time
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, region.ConditionHealthy); c != nil {
		out.Healthy, out.Message = string(c.Status), c.Message
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, region.ConditionTunnels); c != nil && c.Status == metav1.ConditionFalse {
		out.Message = strings.TrimPrefix(out.Message+"; "+c.Message, "; ") // someone has to look at it, also while the host is well
	}
	return out
}

func (w *table) hosts(all []Host) {
	if len(all) == 0 {
		return
	}
	w.row()
	w.row("HOST", "ROLE", "IMAGE", "SLOT", "KERNEL", "UP", "HEARTBEAT", "HEALTHY", "MESSAGE")
	for _, h := range all {
		w.row(h.Name, dash(string(h.Role)), dash(h.Image), dash(h.Slot), dash(h.Kernel), w.age(h.Booted), w.age(h.Heartbeat), h.Healthy, dash(h.Message))
	}
}
