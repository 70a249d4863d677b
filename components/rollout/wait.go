package rollout

import (
	"cmp"
	"context"
	"errors"
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

// JobFailedError is a Job that has failed for good.
type JobFailedError struct{ Job, Reason string }

func (e *JobFailedError) Error() string { return "Job " + e.Job + " failed: " + e.Reason }

// Waiting says what an object waits for, "" if it is there as wished: a workload is rolled out, a Job complete. Of other kinds
// nothing is awaited.
func Waiting(ctx context.Context, c client.Client, o *unstructured.Unstructured) (string, error) {
	why, err := waiting(ctx, c, o)
	return failedInWords(why, err)
}

// Progress is Waiting of a workload that was read already.
func Progress(ctx context.Context, c client.Reader, live *unstructured.Unstructured) (string, error) {
	why, err := progressWaits(ctx, c, live)
	return failedInWords(why, err)
}

func failedInWords(why string, err error) (string, error) {
	var failed *JobFailedError
	if errors.As(err, &failed) {
		return fmt.Sprintf("%s: it failed: %s", failed.Job, failed.Reason), nil
	}
	return why, err
}

func waiting(ctx context.Context, c client.Client, o *unstructured.Unstructured) (string, error) {
	switch o.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", "Job":
	default:
		return "", nil
	}
	live, err := get(ctx, c, o)
	if err != nil {
		return "", fmt.Errorf("%s: %w", refOf(o), err)
	}
	if live == nil {
		return o.GetName() + ": it is not there yet", nil
	}
	return progressWaits(ctx, c, live)
}

func progressWaits(ctx context.Context, c client.Reader, live *unstructured.Unstructured) (string, error) {
	w, err := progressOf(live)
	if err != nil || w.waits == "" {
		return "", err
	}
	why, err := podsWait(ctx, c, live.GetNamespace(), w.selector)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s%s", live.GetName(), w.waits, why), nil
}

// progress of a workload.
type progress struct {
	waits    string
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
			updated = wished(s.Spec.Replicas)
		}
		st := s.Status
		return progress{rollout(s.Generation, st.ObservedGeneration, wished(s.Spec.Replicas), updated, st.AvailableReplicas,
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
	return progress{rollout(d.Generation, st.ObservedGeneration, wished(d.Spec.Replicas), st.UpdatedReplicas,
		st.AvailableReplicas, st.Replicas), d.Spec.Selector}, nil
}

// wished replicas; without a number there is one.
func wished(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// rollout is the state of a workload in words, "" when it is as wished.
func rollout(generation, observed int64, want, updated, available, all int32) string {
	switch {
	case observed < generation:
		return "its controller has not seen the change yet"
	case updated < want:
		return fmt.Sprintf("%d of %d pods have been made anew", updated, want)
	case available < want:
		return fmt.Sprintf("%d of %d pods ready", available, want)
	case all > want:
		return fmt.Sprintf("%d old pods are still to end", all-want)
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
			return progress{}, &JobFailedError{Job: j.Name, Reason: fmt.Sprintf("%s; its last words: regiond kubectl -n %s logs job/%s --all-containers",
				c.Message, j.Namespace, j.Name)}
		}
	}
	waits := "it has not started"
	if j.Status.Active > 0 {
		waits = "it runs"
	}
	if j.Status.Failed > 0 {
		waits += fmt.Sprintf(", %d attempts have failed", j.Status.Failed)
	}
	return progress{waits, j.Spec.Selector}, nil
}

// podsWait explains by the youngest pod that is not ready what it waits for.
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

// podWaits says what a pod waits for, "" if it is ready or ended well.
func podWaits(p corev1.Pod) string {
	if !p.DeletionTimestamp.IsZero() {
		return "pod " + p.Name + " is ending"
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
			return fmt.Sprintf("container %s runs since %s, but its probe does not succeed yet", s.Name, s.State.Running.StartedAt.UTC().Format(time.TimeOnly))
		}
	}
	if len(statuses) == 0 && p.Status.Phase == corev1.PodPending {
		return "pod " + p.Name + " is being started"
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
	why := fmt.Sprintf("ended with status %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		why += " (" + t.Reason + ")"
	}
	if t.Message != "" {
		why += ": " + oneLine(t.Message)
	}
	return why
}

// maxMessage bounds what is quoted of a container, in characters: its last ones say why it ended.
const maxMessage = 300

func oneLine(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > maxMessage {
		return "…" + string(r[len(r)-maxMessage:])
	}
	return string(r)
}

// waitEvery is how often Wait looks.
const waitEvery = time.Second

// Wait waits until all objects are there as wished. report gets what is awaited, each time that it changes. A failed Job ends it.
func Wait(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, report func(string)) error {
	t := time.NewTicker(waitEvery)
	defer t.Stop()
	last := ""
	for {
		var waits []string
		for _, o := range objects {
			why, err := waiting(ctx, c, o)
			var failed *JobFailedError
			switch {
			case errors.As(err, &failed):
				return err
			case err != nil:
				why = err.Error() // the API server may be restarting
			}
			if why != "" {
				waits = append(waits, why)
			}
		}
		if len(waits) == 0 {
			return nil
		}
		if now := strings.Join(waits, "; "); now != last {
			last = now
			report("waiting for " + now)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", last, context.Cause(ctx))
		case <-t.C:
		}
	}
}
