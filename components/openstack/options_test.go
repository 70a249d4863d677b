package openstack_test

import (
	"testing"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
)

// Every release whose images can be built has options to compare; an unknown one has none.
func TestKnownOptions(t *testing.T) {
	for _, release := range oci.Releases() {
		if o, err := openstack.KnownOptions(release); err != nil || len(o) == 0 {
			t.Errorf("%s: got %d projects and %v, want some", release, len(o), err)
		}
	}
	if o, err := openstack.KnownOptions("bexar"); err != nil || o != nil {
		t.Errorf("bexar: got %d projects and %v, want none", len(o), err)
	}
}
