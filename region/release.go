package region

import (
	"fmt"
	"slices"
	"strings"
)

// hops are the legal changes of release: OpenStack supports upgrades from one release to the next,
// and from one SLURP release to the next SLURP one (OpenStack TC resolution of 2022-02-10 on the
// release cadence). 2025.1 (epoxy) and 2026.1 (gazpacho) are SLURP releases, 2025.2 (flamingo)
// between them is not.
var hops = []struct {
	from, to OpenStackRelease
	// blocked says why regiond does not make a legal hop.
	blocked string
}{
	{ReleaseEpoxy, ReleaseGazpacho, "its databases and its message broker would be replaced before a dump of them is made"},
}

// releases in the order in which they came out.
var releases = []OpenStackRelease{ReleaseEpoxy, ReleaseGazpacho}

// Hop is nil if a cluster that runs a release may be changed to another one; otherwise it says why
// not.
func Hop(from, to OpenStackRelease) error {
	if from == to || from == "" {
		return nil
	}
	a, b := slices.Index(releases, from), slices.Index(releases, to)
	switch {
	case b < 0:
		return fmt.Errorf("release %q is not known; known: %s", to, releaseNames())
	case a < 0:
		return fmt.Errorf("the cluster runs release %q, which this regiond does not know; run the regiond that installed it", from)
	case b < a:
		return fmt.Errorf("the cluster runs %s and can't go back to %s: the older release can't read the databases and the message broker's files "+
			"of the newer one; declare release: %s", from, to, from)
	}
	for _, h := range hops {
		switch {
		case h.from != from || h.to != to:
		case h.blocked != "":
			return fmt.Errorf("the cluster runs %s and this regiond does not change it to %s: %s; declare release: %s", from, to, h.blocked, from)
		default:
			return nil
		}
	}
	return fmt.Errorf("the cluster runs %s and can't be changed to %s in one step: OpenStack supports upgrades to the next release, "+
		"or from one SLURP release to the next one", from, to)
}

func releaseNames() string {
	var names []string
	for _, r := range releases {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// novas are the major versions of Nova in each release (releases.openstack.org).
var novas = map[string]OpenStackRelease{"31": ReleaseEpoxy, "33": ReleaseGazpacho}

// ReleaseOfNova is the release that a Debian version of Nova is of, e.g. epoxy for 2:31.0.0-6;
// empty if it is of none that regiond knows.
func ReleaseOfNova(version string) OpenStackRelease {
	if _, after, epoch := strings.Cut(version, ":"); epoch {
		version = after
	}
	major, _, _ := strings.Cut(version, ".")
	return novas[major]
}
