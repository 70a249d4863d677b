package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// consequence says how a change affects pods and their users.
func consequence(c Change) string {
	kind, name := c.Object.Kind, c.Object.Name
	switch c.Action {
	case ActionCreate:
		if kind == "Job" {
			return "it runs once"
		}
	case ActionDelete:
		switch kind {
		case "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob":
			return "its pods stop"
		case "Service":
			return fmt.Sprintf("%s can no longer be reached at its address", name)
		}
	case ActionReplace:
		if kind == "StatefulSet" {
			return fmt.Sprintf("it is recreated without deleting its pods, which restart if their template changed; %s is unavailable meanwhile", name)
		}
		return "it is deleted and recreated"
	case ActionUpdate:
		return updateConsequence(c)
	}
	return ""
}

func updateConsequence(c Change) string {
	name := c.Object.Name
	if !c.RestartsPods() {
		before, _, _ := unstructured.NestedFieldNoCopy(c.live.Object, "spec", "replicas")
		after, _, _ := unstructured.NestedFieldNoCopy(c.result.Object, "spec", "replicas")
		if text(before) != text(after) {
			return fmt.Sprintf("it is scaled from %s to %s pods; running pods are kept", text(before), text(after))
		}
		return ""
	}
	strategy, _, _ := unstructured.NestedString(c.result.Object, "spec", "strategy", "type")
	switch {
	case c.Object.Kind == "Deployment" && strategy == "Recreate":
		return fmt.Sprintf("pods of %s restart: old ones stop before new ones start; it is unavailable until they are ready", name)
	case c.Object.Kind == "Deployment":
		return fmt.Sprintf("pods of %s restart: new ones are ready before old ones stop", name)
	}
	return fmt.Sprintf("pods of %s restart one by one; each is unavailable until it is ready again", name)
}

// RestartsPods reports whether a change replaces pods of a workload: it does if their template
// differs.
func (c Change) RestartsPods() bool {
	switch c.Object.Kind {
	case "Deployment", "StatefulSet", "DaemonSet":
	default:
		return false
	}
	if c.Action != ActionUpdate || c.live == nil {
		return false
	}
	before, _, _ := unstructured.NestedFieldNoCopy(c.live.Object, "spec", "template")
	after, _, _ := unstructured.NestedFieldNoCopy(c.result.Object, "spec", "template")
	return text(before) != text(after)
}
