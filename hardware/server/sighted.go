package server

import (
	"fmt"
	"strings"
	"time"

	"regiond.dev/regiond/hardware/sightings"
	bounded "regiond.dev/regiond/region/condition"
)

// sighted says how far a machine got in the network boot that was asked for, by what the services
// of the provisioning network saw of it since then, and what that means. since is when they began
// to look, if that was later.
func sighted(want Desired, f Facts, since time.Time) string {
	s := f.Sighted
	seen := func(t time.Time) bool { return t.After(since) }
	switch {
	case !seen(s.Last()):
		return fmt.Sprintf("no DHCP, TFTP or HTTP request of it was seen since %s (%s): check the cabling and the VLAN of the provisioning network, "+
			"set the switch port to edge port (STP) and LACP fallback, and enable PXE in the firmware", stamp(since), knownBy(want, f))
	case !seen(s.FirmwareDHCP) && !seen(s.TFTP) && !seen(s.HTTP):
		return fmt.Sprintf("DHCP of %s was seen at %s, but not of its network boot firmware: it started from a disk; enable PXE on this NIC, and check that the firmware "+
			"honours the boot device that the BMC sets for one boot", s.MAC, stamp(s.DHCP))
	}
	said := []string{"DHCP", "TFTP", "HTTP"}
	for i, t := range []time.Time{s.FirmwareDHCP, s.TFTP, s.HTTP} {
		if seen(t) {
			said[i] += " seen at " + stamp(t)
		} else {
			said[i] += " never"
		}
	}
	return strings.Join(said, ", ") + " of " + s.MAC + ": " + meaning(s, seen)
}

// meaning of the last service that network boot firmware reached.
func meaning(s sightings.Sighting, seen func(time.Time) bool) string {
	switch {
	case seen(s.HTTP):
		return "a boot loader runs and has not asked for its script yet; look at its console if this lasts"
	case seen(s.TFTP):
		return "it fetched the boot loader, which has asked for nothing: check that TCP 80 of regiond's address is not filtered, that Secure Boot is off, and look at its console"
	case s.Unanswered == "other-server":
		return "it took the offer of another DHCP server: find that one, and end it on the provisioning network"
	case s.Unanswered != "":
		return "its request was not answered (" + s.Unanswered + "): see the log of regiond, and widen the DHCP range if it is exhausted"
	}
	return "it was given an address and fetches nothing: check that UDP 69 and TCP 80 of regiond's address are not filtered, and that no other DHCP server answers there"
}

// knownBy says by what a machine that netboots is recognised.
func knownBy(want Desired, f Facts) string {
	var by []string
	if macs := knownMACs(want, f); len(macs) > 0 {
		by = append(by, "MAC address "+bounded.List(macs, ", "))
	}
	if uuid := systemUUID(f); uuid != "" {
		by = append(by, "system UUID "+uuid)
	}
	if len(by) == 0 {
		return "it is known by its serial number only, which these requests do not carry"
	}
	return "it is known by " + strings.Join(by, " and ")
}

// systemUUID that the machine said of itself, or else its BMC.
func systemUUID(f Facts) string {
	if inv := f.Status.Inventory; inv != nil && inv.System.UUID != "" {
		return inv.System.UUID
	}
	if b := f.Status.BMC; b != nil {
		return b.SystemUUID
	}
	return ""
}
