package server

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// What an agent says is recorded at most once in 20 seconds, after a burst, and what all say once in a second. A host that was
// broken into may write any condition as often as it likes, and each Event is an object. It is not to silence the others.
const (
	toldByOne       = 20 * time.Second
	toldByOneAtOnce = 10
	toldByAll       = time.Second
	toldByAllAtOnce = 200
	// maxTelling is of how many hosts it is kept what they told lately.
	maxTelling = 10_000
)

// told records what the agents of hosts say of them in conditions, and lets everything pass.
func (c *Controller) told() predicate.Predicate {
	bounded := &boundedRecorder{Recorder: c.Events, all: rate.NewLimiter(rate.Every(toldByAll), toldByAllAtOnce), of: map[string]*rate.Limiter{}}
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		before, after := e.ObjectOld.(*region.Host), e.ObjectNew.(*region.Host)
		event.Conditions(bounded, after, before.Status.Conditions, ofAgent(after.Status.Conditions))
		if note := rebooted(before.Status, after.Status); note != "" {
			bounded.Eventf(after, nil, corev1.EventTypeWarning, "Rebooted", "Boot", "%s", note)
		}
		return true
	}}
}

// rebooted says that a host runs another boot than before, empty if not. A host that comes back within
// the time of a heartbeat shows it by nothing else.
func rebooted(before, after region.HostStatus) string {
	if before.BootID == "" || after.BootID == "" || before.BootID == after.BootID {
		return ""
	}
	at := "the host started again"
	if after.BootTime != nil {
		at += " at " + after.BootTime.UTC().Format(time.RFC3339)
	}
	return at + "; if nobody asked for it, see what its console and the event log of its BMC say of the end of the boot before"
}

// ofAgent are the conditions that an agent has something to say of.
func ofAgent(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return c.Type != region.ConditionHealthy && c.Type != region.ConditionConfigured && c.Type != region.ConditionTunnels
	})
}

// boundedRecorder drops Events of hosts beyond their limits.
type boundedRecorder struct {
	event.Recorder
	all *rate.Limiter

	mu sync.Mutex
	of map[string]*rate.Limiter // by name
}

func (b *boundedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if b.limit(regarding.(*region.Host).Name).Allow() && b.all.Allow() {
		b.Recorder.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}

// limit of one host.
func (b *boundedRecorder) limit(name string) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of[name]
	if l == nil {
		if len(b.of) >= maxTelling {
			clear(b.of)
		}
		l = rate.NewLimiter(rate.Every(toldByOne), toldByOneAtOnce)
		b.of[name] = l
	}
	return l
}

// orderNote says which BMC was given an order, and who allowed it if it disturbs what the machine runs.
func orderNote(access bmc.Target, consent region.Consent) string {
	note := "ordered at the BMC " + access.Address.String()
	if consent != "" {
		note += ", by consent: " + string(consent)
	}
	return note
}
