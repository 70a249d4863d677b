package region_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

func TestUnchecked(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 900_000_000, time.UTC)
	tests := map[string]struct {
		at   time.Time
		want bool // that it is believed
	}{
		"of an earlier life":   {start.Add(-10 * time.Second), false},
		"in the second before": {start.Add(-time.Second), false},
		"since the start":      {start.Truncate(time.Second), true}, // as it is stored
		"later":                {start.Add(time.Minute), true},
	}
	for name, tt := range tests {
		c := &region.OpenStackCluster{}
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(tt.at)}}
		c.Status.Nodes = []region.OpenStackNode{{Name: "n1", Ready: true}}
		c.Unchecked(start, start)
		k := c.Status.Conditions[0]
		if believed := k.Status == metav1.ConditionTrue; believed != tt.want || c.Status.Nodes[0].Ready != tt.want {
			t.Errorf("%s: got %+v and node %+v, want that they are believed: %v", name, k, c.Status.Nodes[0], tt.want)
		}
		if !tt.want && k.Reason != region.ReasonNotChecked {
			t.Errorf("%s: got reason %s", name, k.Reason)
		}
	}
}
