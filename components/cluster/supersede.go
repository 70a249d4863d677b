package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
)

// Superseded is a schema job of an earlier declaration that has not ended. The job of the present one is not started beside it.
type Superseded struct {
	Gate, Name string
	// Ending: it was deleted, and its pods are not gone yet.
	Ending bool
}

// superseded enters jobs of gates that run and are no longer desired. Those that have ended are pruned with everything else.
func (t *reconciliation) superseded(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := t.Client.List(ctx, &jobs, client.InNamespace(openstack.Namespace(t.cluster.Name)),
		client.MatchingLabels{openstack.LabelCluster: t.cluster.Name}); err != nil {
		return err
	}
	for _, j := range jobs.Items {
		gate := j.Annotations[openstack.AnnotationGate]
		desired := slices.ContainsFunc(t.facts.Workloads, func(w Workload) bool { return w.Job && w.Name == j.Name })
		if gate == "" || desired || ended(&j) && j.DeletionTimestamp.IsZero() {
			continue
		}
		t.facts.Superseded = append(t.facts.Superseded, Superseded{Gate: gate, Name: j.Name, Ending: !j.DeletionTimestamp.IsZero()})
	}
	slices.SortFunc(t.facts.Superseded, func(a, b Superseded) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func ended(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// endJobs deletes superseded jobs. In the foreground: a job is gone when its pods are.
func (t *reconciliation) endJobs(ctx context.Context, names []string) error {
	for _, name := range names {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: openstack.Namespace(t.cluster.Name), Name: name}}
		err := t.Live.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("end the job %s of an earlier declaration: %w", name, err)
		}
		t.log.Info("job of an earlier declaration is ended", slog.String("job", name))
	}
	return nil
}

// supersededBy says which job of an earlier declaration keeps those of a gate from being started, "" if none does.
func (d *decider) supersededBy(gate string) string {
	for _, s := range d.f.Superseded {
		if s.Gate == gate {
			return s.Name
		}
	}
	return ""
}
