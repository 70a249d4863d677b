package installer

import (
	"fmt"
	"strings"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

// FindDisk finds the disk that regiond chose from the inventory again. All fields that it gave have to
// match, and exactly one disk has to match them: kernel names move, RAID controllers repeat WWNs,
// and one disk may be seen on two paths. Anything else is an error that lists the candidates.
func FindDisk(disks []inventory.Disk, want enroll.DiskIdentity) (inventory.Disk, error) {
	if want.SerialNumber == "" && want.WWN == "" {
		return inventory.Disk{}, fmt.Errorf("the disk to install to is named neither by serial number nor by WWN: refusing to choose by size (%d bytes)", want.Bytes)
	}
	var matches []inventory.Disk
	for _, d := range disks {
		if (want.SerialNumber == "" || d.SerialNumber == want.SerialNumber) && (want.WWN == "" || d.WWN == want.WWN) && d.Bytes == want.Bytes {
			matches = append(matches, d)
		}
	}
	wanted := fmt.Sprintf("serial %q, wwn %q, %d bytes", want.SerialNumber, want.WWN, want.Bytes)
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return inventory.Disk{}, fmt.Errorf("no disk matches %s; there are: %s", wanted, list(disks))
	default:
		return inventory.Disk{}, fmt.Errorf("%d disks match %s: %s; remove one, or switch off multipath to it", len(matches), wanted, list(matches))
	}
}

// checkWritable refuses a disk that somebody uses, here or on another machine, and one with data that nobody allowed to be
// lost. It is the same judgement by which regiond chose the disk.
func checkWritable(d inventory.Disk, owner inventory.Owner, overwrite bool, holders []string) error {
	switch j := d.Evaluate(owner); {
	case j.Verdict == inventory.VerdictNever:
		return fmt.Errorf("disk %s %s", d, j.Holds)
	case j.Verdict != inventory.VerdictFree && !overwrite:
		return fmt.Errorf("disk %s %s, and regiond's instruction does not say that it may be lost", d, j.Holds)
	}
	if len(holders) > 0 {
		return fmt.Errorf("disk %s is held by %s: stop it before installing", d, strings.Join(holders, ", "))
	}
	return nil
}

func list(disks []inventory.Disk) string {
	if len(disks) == 0 {
		return "no disks (is the driver of the storage controller in the installer?)"
	}
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = d.String()
	}
	return strings.Join(names, "; ")
}
