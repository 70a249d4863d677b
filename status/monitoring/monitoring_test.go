package monitoring_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/status/monitoring"
)

// file of rules.
type file struct {
	Groups []struct {
		Name  string           `json:"name"`
		Rules []map[string]any `json:"rules"`
	} `json:"groups"`
}

func rules(t *testing.T, text string) (f file) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// Each alert says what it means, why it may be, and what to run, and has a test.
func TestAlertsSayWhatToDo(t *testing.T) {
	tests, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range rules(t, monitoring.Alerts).Groups {
		for _, r := range g.Rules {
			n++
			name, _ := r["alert"].(string)
			annotations, _ := r["annotations"].(map[string]any)
			for _, key := range []string{"summary", "description", "causes", "commands"} {
				if text, _ := annotations[key].(string); text == "" {
					t.Errorf("alert %s: got no annotation %q, want one", name, key)
				}
			}
			labels, _ := r["labels"].(map[string]any)
			if severity, _ := labels["severity"].(string); !slices.Contains([]string{"warning", "error", "critical"}, severity) {
				t.Errorf("alert %s: got severity %q, want warning, error or critical", name, severity)
			}
			if !strings.Contains(string(tests), "alertname: "+name) {
				t.Errorf("alert %s: got no test in testdata/alerts_test.yaml, want one", name)
			}
		}
	}
	if n < 10 {
		t.Errorf("got %d alerts, want at least 10", n)
	}
}
