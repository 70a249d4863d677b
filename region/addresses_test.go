package region_test

import (
	"testing"

	"regiond.dev/regiond/region"
)

func TestParseRange(t *testing.T) {
	first, last, err := region.ParseRange("10.0.0.9-10.0.0.10")
	if err != nil || first.String() != "10.0.0.9" || last.String() != "10.0.0.10" {
		t.Errorf("got %s, %s, %v", first, last, err)
	}
	if _, _, err := region.ParseRange("10.0.0.9-10.0.0.9"); err != nil {
		t.Errorf("a range of one address: %v", err)
	}
	for _, bad := range []string{"", "-", "10.0.0.1", "10.0.0.2-10.0.0.1", "10.0.0.1-", "-10.0.0.1", "fd00::1-fd00::2", "10.0.0.1-fd00::2", "10.0.0.1-10.0.0.2-10.0.0.3", " 10.0.0.1-10.0.0.2"} {
		if _, _, err := region.ParseRange(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
