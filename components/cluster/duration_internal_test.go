package cluster

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A job is a span when it has ended, once, and not if it had ended before this process looked.
func TestJobsAreTimed(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })

	begin := time.Unix(1000, 0)
	job := func(name string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "openstack-lab", UID: types.UID(name)},
			Status: batchv1.JobStatus{StartTime: &metav1.Time{Time: begin}}}
	}
	done := func(j *batchv1.Job) *batchv1.Job {
		j.Status.CompletionTime = &metav1.Time{Time: begin.Add(40 * time.Second)}
		return j
	}
	failed := func(j *batchv1.Job) *batchv1.Job {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin.Add(time.Minute)}}}
		return j
	}
	o := &observations{}
	for _, j := range []*batchv1.Job{done(job("schema-old")), job("schema-nova"), job("schema-glance"), job("schema-nova"), done(job("schema-nova")),
		failed(job("schema-glance")), done(job("schema-nova")), failed(job("schema-glance"))} {
		o.time(j)
	}
	all := memory.GetSpans()
	if len(all) != 2 {
		t.Fatalf("got %d spans, want those of the two jobs that were seen to run: %+v", len(all), all)
	}
	if s := all[0]; s.Name != "job schema-nova" || s.EndTime.Sub(s.StartTime) != 40*time.Second || s.Status.Code == codes.Error {
		t.Errorf("got %+v, want 40 s of schema-nova", s)
	}
	if s := all[1]; s.Name != "job schema-glance" || s.EndTime.Sub(s.StartTime) != time.Minute || s.Status.Code != codes.Error {
		t.Errorf("got %+v, want the failure of schema-glance after a minute", s)
	}
}
