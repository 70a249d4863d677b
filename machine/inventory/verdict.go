package inventory

import (
	"fmt"
	"strings"
)

// Verdict says what it takes to write to a disk.
type Verdict string

// Verdicts, from the mildest to the strictest.
const (
	// VerdictFree needs nothing: the disk is blank, or holds an installation of this very server.
	VerdictFree Verdict = "Free"
	// VerdictData needs consent to lose data: something is on the disk that regiond did not write for this server.
	VerdictData Verdict = "Data"
	// VerdictInstallation needs consent for this very server: regiond installed the disk for another one, which may
	// run from it.
	VerdictInstallation Verdict = "Installation"
	// VerdictNever says that nothing may be written, whatever was consented to.
	VerdictNever Verdict = "Never"
)

// Owner is the server for which a disk is to be written.
type Owner struct{ RegionUID, ServerUID string }

// Owns says whether a marker was left by an installation of this very server by this region.
func (o Owner) Owns(m *InstallMarker) bool {
	return m != nil && o.RegionUID != "" && o.ServerUID != "" && m.RegionUID == o.RegionUID && m.ServerUID == o.ServerUID
}

// Evaluation is a verdict and what it rests on.
type Evaluation struct {
	Verdict Verdict
	// Holds completes the sentence "disk X ...", for every verdict but VerdictFree.
	Holds string
}

// Evaluate says what it takes to write to a disk. regiond chooses a disk by it, and the installer evaluates again
// before it writes.
func (d Disk) Evaluate(o Owner) Evaluation {
	shared := d.SharedFilesystems()
	switch {
	case d.Problem != "":
		return Evaluation{VerdictNever, fmt.Sprintf("is sick (%s): replace it, or choose another", d.Problem)}
	case len(shared) > 0:
		return Evaluation{VerdictNever, fmt.Sprintf("holds a shared file system (%s) that other machines may be using, which is never overwritten: "+
			"take the LUN away from this server, or overwrite the disk with zeros by hand", strings.Join(shared, ", "))}
	case d.Blank || o.Owns(d.Marker):
		return Evaluation{Verdict: VerdictFree}
	case d.Marker != nil:
		return Evaluation{VerdictInstallation, fmt.Sprintf("holds an installation of server UID %s in region UID %s", d.Marker.ServerUID, d.Marker.RegionUID)}
	case d.Content == "":
		return Evaluation{VerdictData, "holds " + contentUnknown}
	}
	return Evaluation{VerdictData, "holds " + d.Content}
}
