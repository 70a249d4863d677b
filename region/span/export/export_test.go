package export

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"

	"regiond.dev/regiond/region/span"
)

func TestSpansReachACollector(t *testing.T) {
	var path, body string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		path, body = r.URL.Path, string(b)
	}))
	defer collector.Close()
	before := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	stop, err := Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, end := span.Start(t.Context(), "gate Nova", "lab")
	end(nil)
	stop()
	if path != "/v1/traces" || !strings.Contains(body, "gate Nova") {
		t.Errorf("the collector got %q at %q, want the span at /v1/traces", body, path)
	}
}
