package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
)

// jobMapping maps hosts to their cell. It always has this name, so that one runs at a time: two at
// once map a host twice, or fail.
const jobMapping = "discover-hosts"

// mapping observes the job.
func (t *reconciliation) mapping(ctx context.Context) error {
	t.countMappings()
	job := &batchv1.Job{}
	err := t.Client.Get(ctx, client.ObjectKey{Namespace: openstack.Namespace(t.cluster.Name), Name: jobMapping}, job)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	w := Workload{Name: jobMapping, Job: true, Present: true, Failed: failedAt(job)}
	switch {
	case !w.Failed.IsZero():
		w.Waiting = fmt.Sprintf("the job %s failed; its log: regiond kubectl logs -n %s job/%s", jobMapping, job.Namespace, jobMapping)
	case job.Status.CompletionTime == nil:
		w.Waiting = fmt.Sprintf("the job %s runs", jobMapping)
	default:
		t.facts.MappingEnded = job.Status.CompletionTime.Time
	}
	t.facts.Mapping = w
	return nil
}

// countMappings enters how many jobs were run for the hosts that are without a cell. For other hosts it begins at none.
func (t *reconciliation) countMappings() {
	var unmapped []string
	for _, n := range t.facts.Nodes {
		if n.unmapped() {
			unmapped = append(unmapped, n.Service.ID)
		}
	}
	if of := strings.Join(unmapped, " "); of != t.seen.mappings.of {
		t.seen.mappings.of, t.seen.mappings.runs = of, 0
	}
	t.facts.MappingRuns = t.seen.mappings.runs
}

// mapHosts starts the job, after it has removed one that ended.
func (t *reconciliation) mapHosts(ctx context.Context, again bool) error {
	namespace := openstack.Namespace(t.cluster.Name)
	if again {
		old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: jobMapping}}
		return client.IgnoreNotFound(t.Live.Delete(ctx, old, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	from := &appsv1.Deployment{}
	if err := t.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service.NovaConductor}, from); err != nil {
		return fmt.Errorf("job %s: %w", jobMapping, err)
	}
	job, err := mappingJob(t.cluster.Name, from)
	if err != nil {
		return err
	}
	if err := t.Live.Create(ctx, job); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	t.seen.mappings.runs++
	t.log.Info("hosts are mapped to their cell", slog.String("job", jobMapping))
	return nil
}

// mappingJob runs nova-manage as the conductor's pods are run. It is not labelled as regiond's, so that it is not pruned; it goes
// by itself.
func mappingJob(cluster string, from *appsv1.Deployment) (*batchv1.Job, error) {
	spec := from.Spec.Template.Spec.DeepCopy()
	var container *corev1.Container
	for i := range spec.Containers {
		if spec.Containers[i].Name == service.NovaConductor {
			container = &spec.Containers[i]
		}
	}
	if container == nil {
		return nil, fmt.Errorf("job %s: deployment %s has no container %s", jobMapping, from.Name, service.NovaConductor)
	}
	container.Name = jobMapping
	container.Command, container.Args = []string{"nova-manage", "cell_v2", "discover_hosts", "--by-service", "--verbose"}, nil
	container.Ports, container.Lifecycle = nil, nil
	container.LivenessProbe, container.ReadinessProbe, container.StartupProbe = nil, nil, nil
	spec.Containers = []corev1.Container{*container}
	spec.RestartPolicy, spec.Hostname = corev1.RestartPolicyNever, ""
	labels := map[string]string{openstack.LabelCluster: cluster, openstack.LabelName: jobMapping, openstack.LabelPartOf: "openstack"}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: openstack.Namespace(cluster), Name: jobMapping, Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(int32(2)), ActiveDeadlineSeconds: ptr.To(int64(600)), TTLSecondsAfterFinished: ptr.To(int32(3600)),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: *spec},
		},
	}, nil
}
