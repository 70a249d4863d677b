package bootstrap

import (
	"errors"
	"strings"
	"testing"

	"regiond.dev/regiond/region"
)

func declared(dns, search string) *region.Region {
	r := &region.Region{}
	r.Name = "r"
	r.Spec.Networks.Provisioning.DNS = []string{dns}
	r.Spec.Hardware.Discovery = []region.DiscoveryRange{{Range: search, Credentials: "c"}}
	return r
}

func TestDecideRestart(t *testing.T) {
	running := declared("10.20.0.1", "10.30.0.10-10.30.0.20")
	fine := func(*region.Region) error { return nil }
	unfit := func(*region.Region) error {
		return errors.New("this host is not fit:\n  port 67 is in use by dnsmasq\n    fix: stop it\n")
	}
	file := func(r *region.Region) func() (*region.Region, error) {
		return func() (*region.Region, error) { return r, nil }
	}
	broken := func() (*region.Region, error) { return nil, errors.New("r.yaml:3: unknown field") }
	for _, tc := range []struct {
		what      string
		stored    *region.Region
		load      func() (*region.Region, error)
		preflight func(*region.Region) error
		restart   bool
		waiting   string
	}{
		{"nothing changed", declared("10.20.0.1", "10.30.0.10-10.30.0.20"), broken, unfit, false, ""},
		{"what takes effect at once", declared("10.20.0.1", "10.30.0.10-10.30.0.99"), broken, unfit, false, ""},
		{"a change, and the file has it", declared("10.20.0.9", "10.30.0.10-10.30.0.20"), file(declared("10.20.0.9", "10.30.0.10-10.30.0.20")), fine, true, ""},
		{"the file differs in what takes effect at once", declared("10.20.0.9", "10.30.0.10-10.30.0.20"), file(declared("10.20.0.9", "10.30.0.1-10.30.0.2")), fine, true, ""},
		{"the file would undo it", declared("10.20.0.9", "10.30.0.10-10.30.0.20"), file(declared("10.20.0.1", "10.30.0.10-10.30.0.20")), fine, false, "declares something else in spec.networks"},
		{"the file is broken", declared("10.20.0.9", "10.30.0.10-10.30.0.20"), broken, fine, false, "unknown field"},
		{"the host is not fit", declared("10.20.0.9", "10.30.0.10-10.30.0.20"), file(declared("10.20.0.9", "10.30.0.10-10.30.0.20")), unfit, false, "port 67 is in use"},
	} {
		got := decideRestart(running, tc.stored, "/etc/regiond/region.yaml", tc.load, tc.preflight)
		if got.Restart != tc.restart || (tc.waiting == "") != (got.Waiting == "") || !strings.Contains(got.Waiting, tc.waiting) || strings.Contains(got.Waiting, "\n") {
			t.Errorf("%s: got %+v, want restart %t and waiting %q", tc.what, got, tc.restart, tc.waiting)
		}
	}
}
