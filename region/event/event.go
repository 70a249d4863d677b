// Package event records the history of objects as Kubernetes Events, which `kubectl describe`
// shows. What is happening to a machine now is in its conditions; Events tell how it came there.
package event

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/condition"
)

// maxNote bounds the text of an Event in bytes: the API server refuses longer ones
// (events.k8s.io/v1, note).
const maxNote = 1024

// Recorder records Events: that of a controller manager does. It MUST NOT wait for the API server,
// which may be away; an Event that can't be written is lost. Events of regiond's own objects, which
// are in no namespace, are in the namespace default.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Act records something that regiond did to what an object stands for, or that it tried in vain.
// The reason is the act, in CamelCase.
func Act(r Recorder, o runtime.Object, reason, note string, err error) {
	kind := corev1.EventTypeNormal
	if err != nil {
		kind, note = corev1.EventTypeWarning, fmt.Sprintf("%s: %v", note, err)
	}
	record(r, o, kind, reason, reason, note)
}

// Conditions records the conditions that have another status or reason than before, and returns
// them. What was true and is false now, and what needs somebody, is a warning.
func Conditions(r Recorder, o runtime.Object, before, after []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range after {
		old := slices.IndexFunc(before, func(o metav1.Condition) bool { return o.Type == c.Type })
		if old >= 0 && before[old].Status == c.Status && before[old].Reason == c.Reason {
			continue
		}
		changed = append(changed, c)
		kind := corev1.EventTypeNormal
		worked := old >= 0 && before[old].Status == metav1.ConditionTrue
		if c.Status == metav1.ConditionFalse && (worked || !region.EndsByItself(c.Reason)) {
			kind = corev1.EventTypeWarning
		}
		record(r, o, kind, c.Reason, c.Type, fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message))
	}
	return changed
}

func record(r Recorder, o runtime.Object, kind, reason, action, note string) {
	r.Eventf(o, nil, kind, reason, action, "%s", condition.Clip(note, maxNote))
}
