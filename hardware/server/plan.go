package server

import (
	"time"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// InstallPlan says what is to be written where, before anything is written.
type InstallPlan struct {
	Profile *region.Profile
	Disk    *inventory.Disk
	// Overwrite says that the disk holds something which the operator allowed to be lost.
	Overwrite bool
	Network   identity.Network
}

// Adoption is an installation that is already on the disk.
type Adoption struct {
	Image     string
	Disk      *inventory.Disk
	Installed time.Time
}

// Plan decides what becomes of a machine by its inventory: exactly one of the results is set. It is
// evidence on the disk that decides: an installation that is there is kept, even if every status
// was lost, unless regiond has accepted to replace it. The marker's own time decides nothing: it
// was written by the machine's clock.
func Plan(want Desired, inv *inventory.Inventory, now time.Time) (*InstallPlan, *Adoption, *Refusal) {
	adopted, refused := findInstallation(want, inv)
	if refused != nil {
		return nil, nil, refused
	}
	if adopted != nil && want.Reinstallation == nil {
		return nil, adopted, nil
	}
	profile, refused := MatchProfile(want, inv)
	if refused != nil {
		return nil, nil, refused
	}
	disk, refused := SelectDisk(want, profile.RootDisk, inv.Disks, reinstall(want, time.Time{}, now))
	if refused != nil {
		return nil, nil, refused
	}
	network, refused := ResolveNetwork(profile.Network, inv.NICs)
	if refused != nil {
		return nil, nil, refused
	}
	return &InstallPlan{Profile: profile, Disk: disk, Overwrite: disk.Evaluate(owner(want)).Verdict != inventory.VerdictFree, Network: network}, nil, nil
}

// findInstallation looks for a complete marker of this very server. Two of them contradict each
// other: which one firmware would boot is not for us to guess.
func findInstallation(want Desired, inv *inventory.Inventory) (*Adoption, *Refusal) {
	var found []*Adoption
	for i := range inv.Disks {
		d := &inv.Disks[i]
		if !owner(want).Owns(d.Marker) || !d.Marker.Complete {
			continue
		}
		a := &Adoption{Image: d.Marker.Image, Disk: d}
		if t, err := time.Parse(time.RFC3339, d.Marker.Installed); err == nil {
			a.Installed = t
		}
		found = append(found, a)
	}
	if len(found) > 1 {
		var d []string
		for _, a := range found {
			d = append(d, describe(*a.Disk))
		}
		return nil, refuse(region.ReasonMarkerContradictory, "%d disks carry a complete installation of this server: %s; remove or wipe all but one", len(found), bounded.List(d, "; "))
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, nil
}

// Reinstallation is the one that was accepted, if it is of the present spec.reinstallAfter. It is over with the new installation.
func Reinstallation(s *region.Server) *region.ReinstallationStatus {
	if r := s.Status.Reinstallation; r != nil && s.Spec.ReinstallAfter != nil && r.After.Equal(s.Spec.ReinstallAfter) {
		return r
	}
	return nil
}

// reinstall says whether the operator asked for an installation newer than the given one. A time in
// the future is not yet a request, or else the server would be installed over and over until then.
func reinstall(want Desired, installed, now time.Time) bool {
	r := want.Spec.ReinstallAfter
	return r != nil && !r.After(now) && r.After(installed)
}
