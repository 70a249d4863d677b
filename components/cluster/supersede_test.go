package cluster_test

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

func TestOneSchemaJobAtATime(t *testing.T) {
	waiting := func() cluster.Facts { // all but Nova's job
		f := settled()
		w := workload(&f, "schema-nova")
		w.Present, w.Waiting = false, ""
		return f
	}
	tests := map[string]struct {
		superseded []cluster.Superseded
		end        []string
		start      bool
	}{
		"none":                  {nil, nil, true},
		"it runs":               {[]cluster.Superseded{{Gate: region.ConditionNova, Name: "schema-nova-old"}}, []string{"schema-nova-old"}, false},
		"it ends":               {[]cluster.Superseded{{Gate: region.ConditionNova, Name: "schema-nova-old", Ending: true}}, nil, false},
		"one of another schema": {[]cluster.Superseded{{Gate: region.ConditionGlance, Name: "schema-glance-old"}}, []string{"schema-glance-old"}, true},
		"as many as may run": {[]cluster.Superseded{{Gate: region.ConditionGlance, Name: "a", Ending: true},
			{Gate: region.ConditionNeutron, Name: "b", Ending: true}}, nil, false},
	}
	for name, tt := range tests {
		f := waiting()
		f.Superseded = tt.superseded
		d := cluster.Decide(f, now)
		start := slices.Contains(d.Apply, cluster.Part{Gate: region.ConditionNova, Job: "schema-nova"})
		if start != tt.start || !slices.Equal(d.End, tt.end) {
			t.Errorf("%s: got started %v and ended %q, want %v and %q", name, start, d.End, tt.start, tt.end)
		}
	}
}

// A job of an earlier declaration that runs is ended before the present one is started.
func TestSupersededJob(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "MariaDB", func() bool { return w.condition(region.ConditionMariaDB).Status == metav1.ConditionTrue })
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "schema-keystone-old",
		Labels:      map[string]string{openstack.LabelCluster: "lab", openstack.LabelManagedBy: openstack.ManagedBy},
		Annotations: map[string]string{openstack.AnnotationGate: region.ConditionKeystone}, Finalizers: []string{"foregroundDeletion"}}}
	old.Status.Active = 1
	w.must(w.api.Create(t.Context(), old))
	w.busy = old.Name
	for range 10 {
		w.reconcile(c)
		others := slices.DeleteFunc(w.jobs(), func(n string) bool { return n == old.Name || !strings.HasPrefix(n, "schema-keystone") })
		if len(others) > 0 {
			t.Fatalf("%q runs beside %s", others, old.Name)
		}
	}
	if !slices.Contains(w.writes, "delete *v1.Job "+old.Name) {
		t.Errorf("it is not ended: %q", w.writes)
	}
	old.Finalizers = nil // its pods are gone
	w.must(w.api.Update(t.Context(), w.latest(old)))
	w.until(always(c), "ready", w.ready)
}

// The schema's lock is held by a container that runs from before prepare until the pod has ended, in every schema job.
func TestSchemaJobsHoldALock(t *testing.T) {
	w := newWorld(t)
	w.until(always(w.controller()), "ready", w.ready)
	var jobs batchv1.JobList
	w.must(w.api.List(t.Context(), &jobs))
	for _, j := range jobs.Items {
		var names []string
		for _, c := range j.Spec.Template.Spec.InitContainers {
			names = append(names, c.Name)
			if c.Name == "lock" && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways || c.StartupProbe == nil) {
				t.Errorf("%s: the lock does not run beside the others, or is not waited for", j.Name)
			}
		}
		if lock, prepare := slices.Index(names, "lock"), slices.Index(names, "prepare"); lock < 0 || prepare < lock {
			t.Errorf("%s: containers %q, want lock before prepare", j.Name, names)
		}
	}
	if len(jobs.Items) != 5 {
		t.Errorf("%d jobs", len(jobs.Items))
	}
}
