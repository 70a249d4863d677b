package server

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

func declared(change func(*region.Hardware)) *region.Region {
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1", UID: "region-uid"}}
	r.Spec.Hardware = region.Hardware{
		Discovery: []region.DiscoveryRange{{Range: "10.30.0.10-10.30.0.50", Credentials: "rack-1", Port: 623}},
		Servers:   []region.StaticServer{{Name: "r1-1", BMC: region.BMCEndpoint{Address: "10.30.0.61"}, Profile: "compute"}},
		Profiles: []region.Profile{
			{Name: "compute", RootDisk: region.DiskSelector{SerialNumber: "S1"}},
			{Name: "storage", Match: region.ProfileMatch{Name: "storage-*"}, RootDisk: region.DiskSelector{Overwrite: true}},
		},
	}
	if change != nil {
		change(&r.Spec.Hardware)
	}
	return r
}

// withDisk is a server that was inspected, waits for its installation, and has one disk.
func withDisk(name string, d inventory.Disk, change func(*region.Server)) knownServer {
	s := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "server-uid"}}
	s.Status.Inventory = &inventory.Inventory{Disks: []inventory.Disk{d}, NICs: []inventory.NIC{{Name: "eth0", MACAddress: "02:00:00:00:00:01", Boot: true}}}
	if change != nil {
		change(s)
	}
	return knownServer{s, Facts{Status: s.Status}}
}

func TestForesee(t *testing.T) {
	lvm := inventory.Disk{Name: "sda", SerialNumber: "S1", Type: inventory.DiskSSD, Bytes: 480e9, Content: "LVM"}
	blank := lvm
	blank.Content, blank.Blank = "", true
	overwrite := func(h *region.Hardware) { h.Profiles[0].RootDisk.Overwrite = true }
	const consent = "profile compute allows the root disk of every server"
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	installed := func(s *region.Server) {
		s.Status.Installation = &region.InstallationStatus{Stage: region.StageInstalled, Finished: &metav1.Time{Time: now.Add(-time.Hour)}}
	}
	for _, tt := range []struct {
		name   string
		change func(*region.Hardware)
		known  []knownServer
		want   []string
	}{
		{"nothing", nil, []knownServer{withDisk("r1-1", lvm, nil)}, nil},
		{"overwrite", overwrite, []knownServer{withDisk("r1-1", lvm, nil)},
			[]string{consent, "server r1-1: disk sda serial S1 (480.0 GB SSD), which holds LVM, is overwritten when the server is installed, by profile compute"}},
		{"overwrite, of an installed server", overwrite, []knownServer{withDisk("r1-1", lvm, installed)}, []string{consent}},
		{"overwrite, of a retired server", overwrite, []knownServer{withDisk("r1-1", lvm, func(s *region.Server) { s.Spec.Retired = true })}, []string{consent}},
		{"overwrite, of a blank disk", overwrite, []knownServer{withDisk("r1-1", blank, nil)}, []string{consent}},
		{"overwrite, of a server that was not inspected", overwrite, []knownServer{withDisk("r1-1", lvm, func(s *region.Server) { s.Status.Inventory = nil })}, []string{consent}},
		{"another profile, which overwrites", func(h *region.Hardware) { h.Servers[0].Profile = "storage" }, []knownServer{withDisk("r1-1", lvm, nil)},
			[]string{"server r1-1: disk sda serial S1"}},
		{"a match that is wider", func(h *region.Hardware) { h.Profiles = h.Profiles[1:]; h.Profiles[0].Match.Name = "" }, []knownServer{withDisk("found", lvm, nil)},
			[]string{"server found: disk sda serial S1"}},
		{"a range", func(h *region.Hardware) {
			h.Discovery = append(h.Discovery, region.DiscoveryRange{Range: "10.31.0.10-10.31.0.50", Credentials: "rack-2", Port: 623})
		}, nil, []string{`BMCs are searched in 10.31.0.10-10.31.0.50 at once, with the credentials "rack-2"`}},
		{"a range with other credentials", func(h *region.Hardware) { h.Discovery[0].Credentials = "rack-9" }, nil, []string{`with the credentials "rack-9"`}},
		{"a server", func(h *region.Hardware) {
			h.Servers = append(h.Servers, region.StaticServer{Name: "r1-2", BMC: region.BMCEndpoint{Address: "10.30.0.62"}})
		}, nil, []string{"server r1-2: its BMC at 10.30.0.62 is contacted at once"}},
		{"another BMC", func(h *region.Hardware) { h.Servers[0].BMC.Address = "10.30.0.99" }, nil,
			[]string{"server r1-1: its BMC is contacted at 10.30.0.99 instead of 10.30.0.61"}},
		{"one server less", func(h *region.Hardware) { h.Servers = nil }, nil, []string{"server r1-1: it is no longer declared and is kept"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := foresee(declared(nil), declared(tt.change), tt.known, now)
			if len(got) != len(tt.want) {
				t.Fatalf("got %+v, want %q", got, tt.want)
			}
			for i, c := range got {
				text := c.Consequence
				if c.Server != "" {
					text = "server " + c.Server + ": " + text
				}
				if !strings.Contains(text, tt.want[i]) {
					t.Errorf("got %q, want %q", text, tt.want[i])
				}
				disk := strings.Contains(text, "disk sda")
				if disk != (c.Overwritten != nil) || disk && *c.Overwritten != (region.OverwrittenDisk{Name: "sda", SerialNumber: "S1", Holds: "LVM"}) {
					t.Errorf("%q overwrites %+v", text, c.Overwritten)
				}
			}
		})
	}
}
