package server

import (
	"fmt"
	"strings"
	"time"

	"regiond.dev/regiond/machine/inventory"
)

// DisksWithin is how long after its first report a machine may take to show all disks that are known of it.
const DisksWithin = 2 * time.Minute

// AwaitedDisks names the disks which a machine must have and does not show yet: those of an earlier
// inventory, and the one that its profile names. While one is missing, another could be the only
// one that fits. Disks without serial number and WWN can't be told apart and are not waited for,
// and nothing is while an installation of this server is on a disk, unless it is to be replaced:
// then the disk is chosen again.
func AwaitedDisks(want Desired, earlier, now *inventory.Inventory) []string {
	if adopted, refused := findInstallation(want, now); adopted != nil && want.Reinstallation == nil || refused != nil {
		return nil
	}
	var missing []string
	if earlier != nil {
		for _, d := range earlier.Disks {
			if (d.SerialNumber != "" || d.WWN != "") && !hasDisk(now, d.SerialNumber, d.WWN) {
				missing = append(missing, describe(d))
			}
		}
	}
	profile, refused := MatchProfile(want, now)
	if refused != nil {
		return missing
	}
	if sel := profile.RootDisk; (sel.SerialNumber != "" || sel.WWN != "") && len(missing) == 0 && !hasDisk(now, sel.SerialNumber, sel.WWN) {
		missing = append(missing, fmt.Sprintf("the rootDisk of profile %s (serial %q, wwn %q)", profile.Name, sel.SerialNumber, sel.WWN))
	}
	return missing
}

func hasDisk(inv *inventory.Inventory, serial, wwn string) bool {
	for _, d := range inv.Disks {
		if (serial == "" || d.SerialNumber == serial) && (wwn == "" || strings.EqualFold(d.WWN, wwn)) {
			return true
		}
	}
	return false
}
