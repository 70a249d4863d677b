package region_test

import (
	"slices"
	"testing"

	"regiond.dev/regiond/region"
)

func TestComputeOf(t *testing.T) {
	h := &region.Host{}
	if of := h.ComputeOf(); len(of) != 0 {
		t.Errorf("a host that was given nothing: got %q, want none", of)
	}
	h.SetComputeOf([]string{"b", "a", "b"})
	if of := h.ComputeOf(); !slices.Equal(of, []string{"a", "b"}) {
		t.Errorf("got %q, want a and b", of)
	}
	h.SetComputeOf(nil)
	if of := h.ComputeOf(); len(of) != 0 || len(h.Annotations) != 0 {
		t.Errorf("after all were taken out: got %q, annotations %v, want none", of, h.Annotations)
	}
}
