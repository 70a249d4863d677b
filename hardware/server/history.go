package server

import (
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/flowcontrol"
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

// What the agents of all hosts say is recorded at most once in a second, after a burst. A host that
// was broken into may write any condition as often as it likes, and each Event is an object.
const (
	toldEverySecond = 1
	toldAtOnce      = 200
)

// told records what the agents of hosts say of them in conditions, and lets everything pass.
func (c *Controller) told() predicate.Predicate {
	bounded := boundedRecorder{c.Events, flowcontrol.NewTokenBucketRateLimiter(toldEverySecond, toldAtOnce)}
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		before, after := e.ObjectOld.(*region.Host), e.ObjectNew.(*region.Host)
		event.Conditions(bounded, after, before.Status.Conditions, ofAgent(after.Status.Conditions))
		return true
	}}
}

// ofAgent are the conditions that an agent has something to say of.
func ofAgent(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return c.Type != region.ConditionHealthy && c.Type != region.ConditionConfigured && c.Type != region.ConditionTunnels
	})
}

// boundedRecorder drops Events beyond its limit.
type boundedRecorder struct {
	event.Recorder
	limit flowcontrol.RateLimiter
}

func (b boundedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if b.limit.TryAccept() {
		b.Recorder.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}

// orderNote says which BMC was given an order, and who allowed it if it disturbs what the machine runs.
func orderNote(access bmc.Target, consent region.Consent) string {
	note := "ordered at the BMC " + access.Address.String()
	if consent != "" {
		note += ", by consent: " + string(consent)
	}
	return note
}
