//go:build integration

package monitoring_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/status/monitoring"
)

var promtool = flag.String("promtool", "", "Prometheus' promtool (scripts/fetch-promtool prints its folder)")

// Promtool takes what `regiond metrics` prints, and each alert is raised by what it is for.
func TestPromtool(t *testing.T) {
	if *promtool == "" {
		t.Fatal("-promtool is not set; run: make integration")
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("alerts.yaml", monitoring.Alerts)
	write("prometheus.yml", monitoring.Scrape+"rule_files: [alerts.yaml]\n")
	// promtool compares annotations to the letter: what is tested has none.
	write("rules.yaml", withoutAnnotations(t, monitoring.Alerts))
	tests, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write("tests.yaml", string(tests))
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yaml"}, {"test", "rules", "tests.yaml"}} {
		c := exec.CommandContext(t.Context(), *promtool, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

func withoutAnnotations(t *testing.T, text string) string {
	t.Helper()
	f := rules(t, text)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			maps.DeleteFunc(r, func(key string, _ any) bool { return key == "annotations" })
		}
	}
	b, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
