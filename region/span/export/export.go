// Package export sends spans to a collector.
package export

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// stopTimeout bounds how long the last spans may take.
const stopTimeout = 5 * time.Second

// Start sends the spans of this process by OTLP over HTTP. Where to, and with which headers and certificates, the exporter reads
// from OpenTelemetry's own variables (OpenTelemetry Protocol Exporter, Configuration Options), of which
// OTEL_EXPORTER_OTLP_ENDPOINT must be set. The returned function sends the spans that are left.
func Start(ctx context.Context, version string, log *slog.Logger) (stop func(), err error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "regiond"), attribute.String("service.version", version))))
	otel.SetTracerProvider(provider)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans are lost", slog.Any("error", err)) }))
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans are lost", slog.Any("error", err))
		}
	}, nil
}
