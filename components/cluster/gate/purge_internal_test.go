package gate

import (
	"strings"
	"testing"
)

// Rows of images that are not the probe's, or that are not deleted, are in no statement's reach; an
// image's own row goes last, since the others refer to it.
func TestPurgeImages(t *testing.T) {
	all := purgeImages()
	for i, s := range all {
		if !strings.Contains(s, "WHERE name = ? AND deleted = 1 AND visibility = 'private'") || strings.Count(s, "?") != 1 {
			t.Errorf("statement %q removes more than the probe's", s)
		}
		if last := i == len(all)-1; last != strings.HasPrefix(s, "DELETE FROM glance.images WHERE id IN") {
			t.Errorf("statement %d is %q", i, s)
		}
	}
	if len(all) != 5 {
		t.Errorf("%d statements, want one for each table that refers to images, and theirs", len(all))
	}
}
