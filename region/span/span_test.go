package span

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestSpans(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })

	failed := errors.New("no answer")
	r := Reconciler("server", reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		_, end := Start(ctx, "power on", "s1")
		end(nil)
		return reconcile.Result{RequeueAfter: time.Second}, failed
	}))
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "s1"}})
	if !errors.Is(err, failed) || result.RequeueAfter != time.Second {
		t.Errorf("the wrapped reconciler: got %+v and %v, want its own result and error", result, err)
	}
	begin := time.Unix(1000, 0)
	Past("schema job", "schema-nova", begin, begin.Add(time.Minute), nil)

	all := memory.GetSpans()
	if len(all) != 3 {
		t.Fatalf("got %d spans, want 3: %+v", len(all), all)
	}
	order, turn, job := all[0], all[1], all[2]
	if turn.Name != "reconcile server" || turn.Status.Code != codes.Error || turn.Status.Description != "no answer" || turn.Attributes[0].Value.AsString() != "s1" {
		t.Errorf("reconciliation: got %+v, want the failed span of s1", turn)
	}
	if order.Name != "power on" || order.Parent.SpanID() != turn.SpanContext.SpanID() || order.Status.Code == codes.Error {
		t.Errorf("order: got %+v, want a span below the reconciliation", order)
	}
	if !job.StartTime.Equal(begin) || job.EndTime.Sub(job.StartTime) != time.Minute {
		t.Errorf("job: got %s to %s, want one minute from %s", job.StartTime, job.EndTime, begin)
	}
}
