package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Progress says what a workload is waiting for; "" if it is as declared, that is, rolled out or,
// for a Job, complete.
func Progress(ctx context.Context, c client.Reader, live *unstructured.Unstructured) (string, error) {
	p, err := progressOf(live)
	if err != nil || p.waits == "" {
		return "", err
	}
	why := ""
	if p.selector != nil {
		if why, err = podsWait(ctx, c, live.GetNamespace(), p.selector); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s: %s%s", live.GetName(), p.waits, why), nil
}

// progress is the progress of a workload.
type progress struct {
	waits string
	// selector of the pods that explain it, nil if none do.
	selector *metav1.LabelSelector
}

func progressOf(live *unstructured.Unstructured) (progress, error) {
	switch live.GetKind() {
	case "Job":
		return jobProgress(live)
	case "StatefulSet":
		var s appsv1.StatefulSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &s); err != nil {
			return progress{}, err
		}
		updated := s.Status.UpdatedReplicas
		if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			updated = desiredReplicas(s.Spec.Replicas)
		}
		st := s.Status
		return progress{rollout(s.Generation, st.ObservedGeneration, desiredReplicas(s.Spec.Replicas), updated, st.AvailableReplicas,
			st.Replicas), s.Spec.Selector}, nil
	case "DaemonSet":
		var d appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &d); err != nil {
			return progress{}, err
		}
		st := d.Status
		return progress{rollout(d.Generation, st.ObservedGeneration, st.DesiredNumberScheduled, st.UpdatedNumberScheduled, st.NumberAvailable,
			st.CurrentNumberScheduled), d.Spec.Selector}, nil
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &d); err != nil {
		return progress{}, err
	}
	st := d.Status
	return progress{rollout(d.Generation, st.ObservedGeneration, desiredReplicas(d.Spec.Replicas), st.UpdatedReplicas,
		st.AvailableReplicas, st.Replicas), d.Spec.Selector}, nil
}

// desiredReplicas returns the number of replicas; the default is one.
func desiredReplicas(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// rollout says what a workload is waiting for, "" if it is rolled out.
func rollout(generation, observed int64, want, updated, available, all int32) string {
	switch {
	case observed < generation:
		return "its controller has not observed the change yet"
	case updated < want:
		return fmt.Sprintf("%d of %d pods have been replaced", updated, want)
	case available < want:
		return fmt.Sprintf("%d of %d pods ready", available, want)
	case all > want:
		return fmt.Sprintf("%d old pods are still terminating", all-want)
	}
	return ""
}

func jobProgress(live *unstructured.Unstructured) (progress, error) {
	var j batchv1.Job
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &j); err != nil {
		return progress{}, err
	}
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return progress{}, nil
		case batchv1.JobFailed:
			return progress{waits: fmt.Sprintf("it failed: %s; its log: regiond kubectl -n %s logs job/%s --all-containers", c.Message, j.Namespace,
				j.Name)}, nil
		}
	}
	waits := "it has not started"
	if j.Status.Active > 0 {
		waits = "it is running"
	}
	if j.Status.Failed > 0 {
		waits += fmt.Sprintf(", %d attempts have failed", j.Status.Failed)
	}
	return progress{waits, j.Spec.Selector}, nil
}

// podsWait says what the youngest pod that is not ready is waiting for.
func podsWait(ctx context.Context, c client.Reader, namespace string, s *metav1.LabelSelector) (string, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || selector.Empty() {
		return "", err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.Selector(selector)}); err != nil {
		return "", fmt.Errorf("pods of %s: %w", namespace, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, p := range pods.Items {
		if why := podWaits(p); why != "" {
			return fmt.Sprintf(" since %s: %s", p.CreationTimestamp.UTC().Format(time.RFC3339), why), nil
		}
	}
	return "", nil
}

// podWaits says what a pod is waiting for, "" if it is ready or has succeeded.
func podWaits(p corev1.Pod) string {
	if !p.DeletionTimestamp.IsZero() {
		return "pod " + p.Name + " is terminating"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "no host for its pod: " + c.Message
		}
	}
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, s := range statuses {
		if why := containerWaits(s); why != "" {
			return "container " + s.Name + ": " + why
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil && !s.Ready {
			return fmt.Sprintf("container %s has been running since %s, but its probe has not succeeded yet", s.Name, s.State.Running.StartedAt.UTC().Format(time.TimeOnly))
		}
	}
	if len(statuses) == 0 && p.Status.Phase == corev1.PodPending {
		return "pod " + p.Name + " is starting"
	}
	return ""
}

func containerWaits(s corev1.ContainerStatus) string {
	last := ""
	if t := s.LastTerminationState.Terminated; t != nil && t.ExitCode != 0 {
		last = ended(t)
	}
	switch {
	case s.State.Waiting != nil && s.State.Waiting.Reason == "PodInitializing":
		return ""
	case s.State.Waiting != nil:
		why := s.State.Waiting.Reason
		if m := s.State.Waiting.Message; m != "" && last == "" {
			why += ": " + oneLine(m)
		}
		if last != "" {
			why += "; before, it " + last
		}
		return why
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		return ended(s.State.Terminated)
	}
	return ""
}

func ended(t *corev1.ContainerStateTerminated) string {
	why := fmt.Sprintf("exited with status %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		why += " (" + t.Reason + ")"
	}
	if t.Message != "" {
		why += ": " + oneLine(t.Message)
	}
	return why
}

// maxMessage is the maximum length of a quoted message of a container, in characters. Its end says
// why the container exited.
const maxMessage = 300

func oneLine(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > maxMessage {
		return "…" + string(r[len(r)-maxMessage:])
	}
	return string(r)
}
