// Package rootfs is the installed system's initrd: it finds the root partition, mounts it and hands the
// machine over to the init on it.
package rootfs

import (
	"errors"
	"fmt"
	"strings"

	"regiond.dev/regiond/machine/bootloader"
)

// Candidate is a partition with the label that was asked for.
type Candidate struct {
	// Device is the kernel's name, e.g. nvme0n1p3, and Disk that of its disk.
	Device, Disk string
	// Complete says that the disk carries the marker of a whole installation by regiond.
	Complete bool
	// ESP is the unique GUID of the disk's EFI system partition, in upper case.
	ESP string
	// Problem is why the disk could not be looked at; it is not chosen then.
	Problem error
}

// ErrNotYet says that there is no candidate yet; disks take time to appear.
var ErrNotYet = errors.New("no partition of that label yet")

// Choose chooses the root partition. Labels are not unique: a server may have a second disk from an
// earlier installation. The disk that the boot loader was started from (loaderESP, from
// systemd-boot or the command line) wins, however late it appears; where that is not known, the
// only disk with a whole installation. Everything else is refused: to boot the wrong system is
// worse than not to boot.
func Choose(candidates []Candidate, loaderESP string) (Candidate, error) {
	if len(candidates) == 0 {
		return Candidate{}, ErrNotYet
	}
	if loaderESP != "" {
		var same []Candidate
		for _, c := range candidates {
			if c.ESP == loaderESP {
				same = append(same, c)
			}
		}
		switch len(same) {
		case 0:
			return Candidate{}, fmt.Errorf("%w on the disk of the boot loader (ESP %s); there are %s", ErrNotYet, loaderESP, names(candidates))
		case 1:
			return same[0], nil
		default:
			return Candidate{}, fmt.Errorf("%d root partitions on disks with the same ESP %s: %s; one is a copy: remove it", len(same), loaderESP, names(same))
		}
	}
	var complete []Candidate
	for _, c := range candidates {
		if c.Complete {
			complete = append(complete, c)
		}
	}
	switch len(complete) {
	case 0:
		return Candidate{}, fmt.Errorf("no disk with a whole installation by regiond among %s: install the server again", names(candidates))
	case 1:
		return complete[0], nil
	default:
		return Candidate{}, fmt.Errorf("%d disks hold an installation by regiond: %s; wipe the one that is not to be booted", len(complete), names(complete))
	}
}

func names(candidates []Candidate) string {
	var names []string
	for _, c := range candidates {
		name := c.Device
		if c.Problem != nil {
			name += fmt.Sprintf(" (%v)", c.Problem)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Arguments of the kernel's command line that the initrd obeys.
type Arguments struct {
	// Label of the root partition.
	Label string
	// ReadOnly mount, from "ro"; the last of ro and rw counts, and rw is the default.
	ReadOnly bool
	// Init to start.
	Init string
	// ESP is the unique GUID of the EFI system partition on the disk that the system was booted from; empty on one that was
	// installed before the installer wrote it down.
	ESP string
}

// ParseArguments reads them from the words of a command line. Only root=PARTLABEL= is understood.
func ParseArguments(words []string) (Arguments, error) {
	a := Arguments{Init: "/sbin/init"}
	root := ""
	for _, word := range words {
		if guid, ok := strings.CutPrefix(word, bootloader.ESPArgument); ok {
			a.ESP = strings.ToUpper(guid)
		}
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "root":
			root = value
		case "ro", "rw":
			a.ReadOnly = key == "ro"
		case "init":
			a.Init = value
		}
	}
	label, ok := strings.CutPrefix(root, "PARTLABEL=")
	if !ok || label == "" {
		return Arguments{}, fmt.Errorf("the kernel's command line has root=%q; want root=PARTLABEL= and a label", root)
	}
	a.Label = label
	return a, nil
}
