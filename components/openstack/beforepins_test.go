package openstack_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// TestBeforePins: a cluster without a pin is rendered byte for byte as by the regiond that rolled
// it out; otherwise its pods and its hosts' services would restart when regiond is upgraded. If
// this fails, the rendering code has changed its output for the same templates: keep the output for
// these.
func TestBeforePins(t *testing.T) {
	want := map[region.OpenStackRelease]string{
		region.ReleaseEpoxy:    "2422200e78c979c35b8b30c664e5fa521615a6017a173a966117077bd736a001",
		region.ReleaseGazpacho: "8ce9d1596f199b512ca35fb8083dc567cea7b69a9110ffb6c976fc8dd867b709",
	}
	c, err := openstack.BeforePins()
	if err != nil {
		t.Fatal(err)
	}
	for release, sum := range want {
		s, err := c.Desired(programInput(release))
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		for _, o := range s.Objects {
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			h.Write(b)
		}
		conf, _, err := s.Nodes["node1"].Encode()
		if err != nil {
			t.Fatal(err)
		}
		h.Write(conf)
		if got := hex.EncodeToString(h.Sum(nil)); got != sum {
			t.Errorf("%s: rendered to %s, want %s", release, got, sum)
		}
	}
}
