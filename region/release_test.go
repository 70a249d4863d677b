package region_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/region"
)

func TestHop(t *testing.T) {
	for _, c := range []struct {
		from, to region.OpenStackRelease
		want     string // part of the refusal, "" if it is allowed
	}{
		{"", region.ReleaseEpoxy, ""},
		{region.ReleaseEpoxy, region.ReleaseEpoxy, ""},
		{region.ReleaseGazpacho, region.ReleaseGazpacho, ""},
		{region.ReleaseGazpacho, region.ReleaseEpoxy, "can't go back to epoxy"},
		{region.ReleaseEpoxy, region.ReleaseGazpacho, "before a dump of them is made; declare release: epoxy"},
		{region.ReleaseEpoxy, "zed", `release "zed" is not known; known: epoxy, gazpacho`},
		{"hibiscus", region.ReleaseGazpacho, `runs release "hibiscus", which this regiond does not know`},
	} {
		err := region.Hop(c.from, c.to)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("from %q to %q: got %v, want %q", c.from, c.to, err, c.want)
		}
	}
}

func TestReleaseOfNova(t *testing.T) {
	for version, want := range map[string]region.OpenStackRelease{"2:31.0.0-6+deb13u3": region.ReleaseEpoxy, "2:33.0.2-1": region.ReleaseGazpacho,
		"31.1.0": region.ReleaseEpoxy, "2:32.0.0-1": "", "": "", "3:1": ""} {
		if got := region.ReleaseOfNova(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}
