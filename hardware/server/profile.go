package server

import (
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// MatchProfile returns the profile that decides what becomes of the server: the one its spec names,
// else the first that matches its inventory.
func MatchProfile(want Desired, inv *inventory.Inventory) (*region.Profile, *Refusal) {
	if want.Spec.Profile != "" {
		for i := range want.Profiles {
			if want.Profiles[i].Name == want.Spec.Profile {
				return &want.Profiles[i], nil
			}
		}
		return nil, refuse(region.ReasonProfileUnknown, "spec.profile is %q, which is not in the region's hardware.profiles (%s); name one of them or add it",
			want.Spec.Profile, names(want.Profiles))
	}
	var why []string
	for i := range want.Profiles {
		no := mismatch(want.Profiles[i].Match, want.Name, inv)
		if no == "" {
			return &want.Profiles[i], nil
		}
		why = append(why, want.Profiles[i].Name+": "+no)
	}
	if len(why) == 0 {
		return nil, refuse(region.ReasonNoProfile, "the region has no hardware.profiles; add one that matches this server")
	}
	return nil, refuse(region.ReasonNoProfile, "no profile matches this server (%s); change a profile's match or add one", bounded.List(why, "; "))
}

// mismatch says why a profile does not match, or returns "".
func mismatch(m region.ProfileMatch, name string, inv *inventory.Inventory) string {
	pattern := func(field, pattern, value string) string {
		if pattern == "" {
			return ""
		}
		ok, err := path.Match(pattern, value)
		switch {
		case err != nil:
			return fmt.Sprintf("%s pattern %q is malformed", field, pattern)
		case !ok:
			return fmt.Sprintf("%s is %q, not %q", field, value, pattern)
		}
		return ""
	}
	checks := []string{
		pattern("name", m.Name, name),
		pattern("manufacturer", m.Manufacturer, inv.System.Manufacturer),
		pattern("product", m.Product, inv.System.Product),
	}
	for _, no := range checks {
		if no != "" {
			return no
		}
	}
	if len(m.SerialNumbers) > 0 && !slices.Contains(m.SerialNumbers, inv.System.SerialNumber) {
		return fmt.Sprintf("serial number %q is not listed", inv.System.SerialNumber)
	}
	if m.MinMemory != "" {
		q, err := resource.ParseQuantity(m.MinMemory)
		if err != nil {
			return fmt.Sprintf("minMemory %q is not a quantity", m.MinMemory)
		}
		if inv.MemoryBytes < q.Value() {
			return fmt.Sprintf("memory is %s, less than %s", bytes(inv.MemoryBytes), m.MinMemory)
		}
	}
	if inv.CPU.Threads < m.MinCPUs {
		return fmt.Sprintf("CPUs are %d, less than %d", inv.CPU.Threads, m.MinCPUs)
	}
	return ""
}

// firmwareMode to netboot in. Before the first inspection the profile is guessed from the server's
// name only, since a one-shot boot must say UEFI or BIOS (IPMI v2.0 section 28.13, boot flags).
func firmwareMode(want Desired, inv *inventory.Inventory) inventory.FirmwareMode {
	mode := inventory.FirmwareMode("")
	if inv != nil {
		if p, refused := MatchProfile(want, inv); refused == nil {
			mode = p.Firmware
		}
	} else {
		for _, p := range want.Profiles {
			named, err := path.Match(p.Match.Name, want.Name)
			if p.Name == want.Spec.Profile || want.Spec.Profile == "" && (p.Match.Name == "" || err == nil && named) {
				mode = p.Firmware
				break
			}
		}
	}
	if mode == "" {
		return inventory.FirmwareUEFI
	}
	return mode
}

func names(profiles []region.Profile) string {
	if len(profiles) == 0 {
		return "none"
	}
	var n []string
	for _, p := range profiles {
		n = append(n, p.Name)
	}
	return bounded.List(n, ", ")
}

// bytes for people, in the decimal units that disks are sold by.
func bytes(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, i := float64(n)/unit, 0
	for ; value >= unit && i < 4; i++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTP"[i])
}
