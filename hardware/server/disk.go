package server

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// SelectDisk returns the one disk that the selector fits, if it may be written to. Anything else is
// refused with the list of all disks and why each was not taken: a selector that fits nothing must
// never fall back to any disk. Asked says that the operator asked for this very server to be installed.
func SelectDisk(want Desired, sel region.DiskSelector, disks []inventory.Disk, asked bool) (*inventory.Disk, *Refusal) {
	var fit []*inventory.Disk
	why := make([]string, len(disks))
	for i := range disks {
		if why[i] = diskMismatch(sel, disks[i]); why[i] == "" {
			fit = append(fit, &disks[i])
			why[i] = fits
		}
	}
	const advice = "name one by serialNumber or wwn in the profile's rootDisk"
	switch {
	case len(disks) == 0:
		return nil, refuse(region.ReasonDiskNotSelected, "the server has no disk; check its cabling, its RAID controller's mode and the installer's drivers")
	case len(fit) == 0:
		return nil, refuse(region.ReasonDiskNotSelected, "no disk fits the profile's rootDisk; %s. Candidates: %s", advice, listDisks(disks, why))
	case len(fit) > 1:
		return nil, refuse(region.ReasonDiskNotSelected, "%d disks fit the profile's rootDisk, exactly one must; %s. Candidates: %s", len(fit), advice, listDisks(disks, why))
	}
	d := fit[0]
	if d.SerialNumber == "" && d.WWN == "" {
		return nil, refuse(region.ReasonDiskNotSelected, "disk %s has neither serial number nor WWN, so it can't be told from another for certain; give it one or choose another. Candidates: %s",
			d.Name, listDisks(disks, why))
	}
	for i := range disks {
		if o := &disks[i]; o != d && o.SerialNumber == d.SerialNumber && o.WWN == d.WWN && o.Bytes == d.Bytes {
			return nil, refuse(region.ReasonDiskNotSelected, "disks %s and %s report the same serial number, WWN and size, so they can't be told apart (two paths to one disk?); leave one path. Candidates: %s",
				d.Name, o.Name, listDisks(disks, why))
		}
	}
	switch j := d.Evaluate(owner(want)); j.Verdict {
	case inventory.VerdictFree:
		return d, nil
	case inventory.VerdictNever:
		return nil, refuse(region.ReasonDiskNotSelected, "disk %s %s", describe(*d), j.Holds)
	case inventory.VerdictInstallation:
		// A region that lost its state is a new region: what a profile allows for all servers of a kind
		// must not make it take those of the old one, which run.
		if sel.Overwrite && asked {
			return d, nil
		}
		return nil, refuse(region.ReasonDiskNotSelected, "disk %s %s; if that may be lost, set spec.reinstallAfter of this server to now, and overwrite: true in the profile's rootDisk",
			describe(*d), j.Holds)
	default:
		if sel.Overwrite {
			return d, nil
		}
		return nil, refuse(region.ReasonDiskNotSelected, "disk %s %s, which was not installed here for this server; overwrite all of the disk with zeros and set spec.reinstallAfter to now, or set overwrite: true in the profile's rootDisk if the data may be lost",
			describe(*d), j.Holds)
	}
}

// owner is the server as its marker on a disk names it.
func owner(want Desired) inventory.Owner {
	return inventory.Owner{RegionUID: string(want.RegionUID), ServerUID: string(want.UID)}
}

// diskMismatch says why a disk does not fit, or returns "".
func diskMismatch(sel region.DiskSelector, d inventory.Disk) string {
	if sel.SerialNumber != "" && sel.SerialNumber != d.SerialNumber {
		return fmt.Sprintf("serial number is not %q", sel.SerialNumber)
	}
	if sel.WWN != "" && !strings.EqualFold(sel.WWN, d.WWN) {
		return fmt.Sprintf("WWN is not %q", sel.WWN)
	}
	if sel.Model != "" {
		ok, err := path.Match(sel.Model, d.Model)
		if err != nil {
			return fmt.Sprintf("model pattern %q is malformed", sel.Model)
		}
		if !ok {
			return fmt.Sprintf("model is not %q", sel.Model)
		}
	}
	if sel.Type != "" && sel.Type != d.Type {
		return fmt.Sprintf("type is %s, not %s", d.Type, sel.Type)
	}
	for _, limit := range []struct {
		name, value string
		outside     func(limit int64) bool
	}{
		{"smaller than minSize", sel.MinSize, func(l int64) bool { return d.Bytes < l }},
		{"larger than maxSize", sel.MaxSize, func(l int64) bool { return d.Bytes > l }},
	} {
		if limit.value == "" {
			continue
		}
		q, err := resource.ParseQuantity(limit.value)
		if err != nil {
			return fmt.Sprintf("%s %q, which is not a quantity", limit.name, limit.value)
		}
		if limit.outside(q.Value()) {
			return limit.name + " " + limit.value
		}
	}
	return ""
}

// fits stands where else would be why a disk was not taken.
const fits = "fits"

// listDisks names the disks, those that fit first, as far as there is room.
func listDisks(disks []inventory.Disk, why []string) string {
	var fit, others []string
	for i, d := range disks {
		if why[i] == fits {
			fit = append(fit, describe(d)+": "+fits)
		} else {
			others = append(others, describe(d)+": "+why[i])
		}
	}
	return bounded.List(append(fit, others...), "; ")
}

func describe(d inventory.Disk) string {
	s := d.Name
	for _, f := range []struct{ name, value string }{{"serial", d.SerialNumber}, {"wwn", d.WWN}, {"model", d.Model}} {
		if f.value != "" {
			s += " " + f.name + " " + f.value
		}
	}
	return fmt.Sprintf("%s (%s %s)", s, bytes(d.Bytes), d.Type)
}
