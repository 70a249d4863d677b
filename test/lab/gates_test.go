package lab

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// What the status of OpenStack says from before the seed host's death is not taken for what is.
func TestEarlierLifeIsNotBelieved(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		started, ready time.Time
		want           bool
	}{
		"seen since the start":        {start, start.Add(40 * time.Second), true},
		"of the earlier life":         {start, start.Add(-time.Hour), false},
		"regiond does not answer yet": {time.Time{}, start, false},
	}
	for name, tt := range tests {
		c := region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
		for _, kind := range append([]string{region.ConditionReady}, region.Gates...) {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Proved",
				LastTransitionTime: metav1.NewTime(tt.ready)})
		}
		said := 0
		f := Facts{Started: tt.started, Clusters: []region.OpenStackCluster{c}}
		w := clusterWaiter{}
		if got := w.next(f.cluster(), func(string, ...any) { said++ }); got != tt.want || said > 0 != tt.want {
			t.Errorf("%s: got ready %v with %d lines, want %v", name, got, said, tt.want)
		}
	}
}
