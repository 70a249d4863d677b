package status

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// Server is one server of the region.
type Server struct {
	Name    string             `json:"name"`
	BMC     string             `json:"bmc"`
	Power   region.PowerState  `json:"power,omitempty"`
	Phase   region.ServerPhase `json:"phase,omitempty"`
	Ready   bool               `json:"ready"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message,omitempty"`
	// Since is when the condition that gives Reason and Message last changed.
	Since time.Time `json:"since,omitzero"`
	// Heartbeat is the last heartbeat of its agent.
	Heartbeat time.Time `json:"heartbeat,omitzero"`
}

func server(s region.Server, heartbeat time.Time) Server {
	out := Server{
		Name: s.Name, BMC: s.Spec.BMC.Address, Power: s.Status.Power, Phase: s.Status.Phase,
		Heartbeat: heartbeat, Reason: region.ReasonNotChecked, Message: "waiting for the controller to reconcile it",
	}
	if p := s.Spec.BMC.Port; p != 0 && p != region.DefaultBMCPort {
		out.BMC = net.JoinHostPort(out.BMC, strconv.Itoa(int(p)))
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady); c != nil {
		out.Ready = c.Status == metav1.ConditionTrue
		out.Reason, out.Message, out.Since = c.Reason, c.Message, c.LastTransitionTime.Time
	}
	for _, kind := range []string{region.ConditionBMCAddress, region.ConditionMachineIdentity} {
		if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			// An operator must act on it, even while the server is in service.
			out.Message = strings.TrimPrefix(out.Message+"; "+c.Reason+": "+c.Message, "; ")
		}
	}
	return out
}

// unreadyServers says which servers are not ready.
func unreadyServers(servers []Server) string {
	waiting := 0
	first := ""
	for _, s := range servers {
		if !s.Ready && s.Phase != region.PhaseRetired {
			waiting++
			first = cmp.Or(first, s.Name)
		}
	}
	switch waiting {
	case 0:
		return ""
	case 1:
		return "server " + first + " is not ready"
	}
	return fmt.Sprintf("%d of %d servers are not ready, %s first", waiting, len(servers), first)
}

func (w *table) servers(all []Server) {
	if len(all) == 0 {
		return
	}
	w.row()
	w.row("SERVER", "BMC", "POWER", "PHASE", "SINCE", "HEARTBEAT", "MESSAGE")
	for _, s := range all {
		message := s.Message
		if !s.Ready && s.Reason != "" {
			message = s.Reason + ": " + message
		}
		w.row(s.Name, s.BMC, dash(string(s.Power)), dash(string(s.Phase)), w.age(s.Since), w.age(s.Heartbeat), dash(message))
	}
}
