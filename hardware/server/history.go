package server

import (
	"log/slog"

	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
)

// report logs, counts and records what changed.
func (c *Controller) report(before, after *region.Server) {
	c.metrics.phase(before.Name, after.Status.Phase)
	for _, n := range event.Conditions(c.Events, after, before.Status.Conditions, after.Status.Conditions) {
		c.Log.Info("condition changed", slog.String("server", after.Name), slog.String("condition", n.Type), slog.String("status", string(n.Status)),
			slog.String("reason", n.Reason), slog.String("message", n.Message))
	}
}

// told records what the agents of hosts say of them in conditions, and lets everything pass.
func (c *Controller) told() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		before, after := e.ObjectOld.(*region.Host), e.ObjectNew.(*region.Host)
		event.Conditions(c.Events, after, before.Status.Conditions, after.Status.Conditions)
		return true
	}}
}

// orderNote says which BMC was given an order, and who allowed it if it disturbs what the machine runs.
func orderNote(access bmc.Target, consent region.Consent) string {
	note := "ordered at the BMC " + access.Address.String()
	if consent != "" {
		note += ", by consent: " + string(consent)
	}
	return note
}
