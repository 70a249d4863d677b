// Package span tells where the time goes, as OpenTelemetry spans. Nothing is collected unless the command has set a provider, see
// otel.SetTracerProvider; a span costs nothing then.
package span

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// library names what measures, for those who read spans of several programs.
const library = "regiond.dev/regiond"

// Start begins a span about one object, below that of the context. The returned function ends it, with the error if there is one.
func Start(ctx context.Context, name, object string) (context.Context, func(error)) {
	ctx, s := otel.Tracer(library).Start(ctx, name, trace.WithAttributes(attribute.String("object", object)))
	return ctx, func(err error) { end(s, err) }
}

// Past records a span of what another program did, such as a job or an installer, when it has ended.
func Past(name, object string, begin, finish time.Time, err error) {
	_, s := otel.Tracer(library).Start(context.Background(), name, trace.WithTimestamp(begin), trace.WithAttributes(attribute.String("object", object)))
	end(s, err, trace.WithTimestamp(finish))
}

func end(s trace.Span, err error, options ...trace.SpanEndOption) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End(options...)
}

// Reconciler is a reconciler of which each reconciliation is a span.
func Reconciler(controller string, r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		ctx, end := Start(ctx, "reconcile "+controller, req.Name)
		result, err := r.Reconcile(ctx, req)
		end(err)
		return result, err
	})
}
