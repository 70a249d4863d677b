package server_test

import (
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

func TestAwaitedDisks(t *testing.T) {
	wwn := func(name string) func(*inventory.Disk) { return func(d *inventory.Disk) { d.WWN = name } }
	a, b := disk("sda", "A"), disk("sdb", "B")
	for _, tt := range []struct {
		name         string
		earlier, now []inventory.Disk
		with         func(w *server.Desired)
		// want is in what is awaited, one each.
		want []string
	}{
		{name: "first inventory", now: []inventory.Disk{a}},
		{name: "all are there, under other names", earlier: []inventory.Disk{a, b}, now: []inventory.Disk{disk("sda", "B"), disk("sdb", "A")}},
		{name: "a RAID volume that was seen before", earlier: []inventory.Disk{a, b}, now: []inventory.Disk{a}, want: []string{"serial B"}},
		{name: "all disks are late", earlier: []inventory.Disk{a, b}, want: []string{"serial A", "serial B"}},
		{name: "one more than before", earlier: []inventory.Disk{a}, now: []inventory.Disk{a, b}},
		{name: "nothing names it", earlier: []inventory.Disk{disk("sda", "")}},
		{name: "the profile's, by serial number", now: []inventory.Disk{a}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.SerialNumber = "B" }, want: []string{`rootDisk of profile all (serial "B"`}},
		{name: "the profile's, by WWN", now: []inventory.Disk{a}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.WWN = "naa.5" }, want: []string{`wwn "naa.5"`}},
		{name: "the profile's is there", now: []inventory.Disk{a, disk("sdb", "B", wwn("naa.5AB"))}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.WWN = "naa.5ab" }},
		{name: "a machine in service boots its disk whatever else is missing", earlier: []inventory.Disk{a, b}, now: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}},
		{name: "a machine that is installed again", earlier: []inventory.Disk{a, b}, now: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))},
			with: func(w *server.Desired) { w.Reinstallation = &region.ReinstallationStatus{} }, want: []string{"serial B"}},
		{name: "no profile: what was seen is awaited", earlier: []inventory.Disk{a, b}, now: []inventory.Disk{a}, with: func(w *server.Desired) { w.Profiles = nil }, want: []string{"serial B"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := desired()
			if tt.with != nil {
				tt.with(&w)
			}
			earlier := machine(tt.earlier...)
			if tt.earlier == nil {
				earlier = nil
			}
			got := server.AwaitedDisks(w, earlier, machine(slices.Concat([]inventory.Disk{}, tt.now)...))
			if len(got) != len(tt.want) {
				t.Fatalf("awaited %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("awaited %q, want %q", got, tt.want)
				}
			}
		})
	}
}
