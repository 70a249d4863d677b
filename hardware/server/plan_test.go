package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

func disk(name, serial string, change ...func(*inventory.Disk)) inventory.Disk {
	d := inventory.Disk{Name: name, SerialNumber: serial, Bytes: 480e9, Type: inventory.DiskSSD, Model: "PM893", Blank: true}
	for _, c := range change {
		c(&d)
	}
	return d
}

func marked(region, server string, complete bool) func(*inventory.Disk) {
	return func(d *inventory.Disk) {
		d.Blank, d.Content = false, "GPT, ext4"
		d.Marker = &inventory.InstallMarker{RegionUID: region, ServerUID: server, Complete: complete, Image: "trixie-0", Installed: now.Add(-time.Hour).Format(time.RFC3339)}
	}
}

func foreign(d *inventory.Disk) { d.Blank, d.Content = false, "LVM" }

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name  string
		disks []inventory.Disk
		with  func(w *server.Desired)
		disk  string // serial number to install on
		adopt string // serial number to boot from
		// overwrite: what is on the disk will be lost
		overwrite bool
		// refusal
		reason string
		parts  []string
	}{
		{name: "one blank disk", disks: []inventory.Disk{disk("sda", "A")}, disk: "A"},
		{name: "no disk", disks: []inventory.Disk{}, reason: "DiskNotSelected", parts: []string{"no disk"}},
		{name: "two disks fit", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "B", func(d *inventory.Disk) { d.WWN = "naa.5" })}, reason: "DiskNotSelected",
			parts: []string{"2 disks fit", "sda serial A model PM893 (480.0 GB SSD): fits", "sdb serial B wwn naa.5 model PM893"}},
		{name: "selector fits none: no other disk is taken", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "B")}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.SerialNumber = "C" },
			reason: "DiskNotSelected", parts: []string{`sda serial A model PM893 (480.0 GB SSD): serial number is not "C"`}},
		{name: "by WWN, case is not significant", disks: []inventory.Disk{disk("sda", "A", func(d *inventory.Disk) { d.WWN = "naa.5000c500a1b2c3d4" }), disk("sdb", "B")},
			with: func(w *server.Desired) { w.Profiles[0].RootDisk.WWN = "naa.5000C500A1B2C3D4" }, disk: "A"},
		{name: "by type", disks: []inventory.Disk{disk("sda", "A"), disk("nvme0n1", "N", func(d *inventory.Disk) { d.Type = inventory.DiskNVMe })},
			with: func(w *server.Desired) { w.Profiles[0].RootDisk.Type = inventory.DiskNVMe }, disk: "N"},
		{name: "by size", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "B", func(d *inventory.Disk) { d.Bytes = 4e12 })},
			with: func(w *server.Desired) { w.Profiles[0].RootDisk.MaxSize = "1T" }, disk: "A"},
		{name: "by model", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "B", func(d *inventory.Disk) { d.Model = "S4510" })},
			with: func(w *server.Desired) { w.Profiles[0].RootDisk.Model = "PM*" }, disk: "A"},
		{name: "malformed quantity fits nothing", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.MinSize = "big" }, reason: "DiskNotSelected", parts: []string{"not a quantity"}},
		{name: "foreign data", disks: []inventory.Disk{disk("sda", "A", foreign)}, reason: "DiskNotSelected", parts: []string{"holds LVM", "overwrite: true"}},
		{name: "foreign data, overwrite", disks: []inventory.Disk{disk("sda", "A", foreign)}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.Overwrite = true }, disk: "A", overwrite: true},
		{name: "a shared file system is never overwritten", disks: []inventory.Disk{disk("sda", "A", func(d *inventory.Disk) { d.Blank, d.Content = false, "VMFS" })},
			with: func(w *server.Desired) {
				w.Profiles[0].RootDisk.Overwrite, w.Spec.ReinstallAfter = true, ago(time.Minute)
			}, reason: "DiskNotSelected", parts: []string{"shared file system (VMFS)", "take the LUN away"}},
		{name: "a sick disk is never written to", disks: []inventory.Disk{disk("sda", "A", func(d *inventory.Disk) { d.Blank, d.Problem = false, "it did not answer within 1m0s" })},
			with: func(w *server.Desired) { w.Profiles[0].RootDisk.Overwrite = true }, reason: "DiskNotSelected", parts: []string{"is sick (it did not answer within 1m0s)", "replace it"}},
		{name: "overwrite does not take what another region installed", disks: []inventory.Disk{disk("sda", "A", marked("other-region", serverUID, true))}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.Overwrite = true }, reason: "DiskNotSelected", parts: []string{"other-region", "spec.reinstallAfter"}},
		{name: "another region's installation is overwritten when that is asked for", disks: []inventory.Disk{disk("sda", "A", marked("other-region", serverUID, true))}, with: func(w *server.Desired) {
			w.Profiles[0].RootDisk.Overwrite, w.Spec.ReinstallAfter = true, &metav1.Time{Time: now.Add(-time.Minute)}
		}, disk: "A", overwrite: true},
		{name: "overwrite does not choose", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "B", foreign)}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.Overwrite = true }, reason: "DiskNotSelected"},
		{name: "no identity", disks: []inventory.Disk{disk("sda", "")}, reason: "DiskNotSelected", parts: []string{"neither serial number nor WWN"}},
		{name: "two paths to one disk", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "A", func(d *inventory.Disk) { d.Model = "x" })}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.Model = "PM893" }, reason: "DiskNotSelected", parts: []string{"can't be told apart"}},

		{name: "our complete installation is adopted", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, adopt: "A"},
		{name: "adopted even where the profile would choose another disk", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true)), disk("sdb", "B")},
			with: func(w *server.Desired) { w.Profiles[0].RootDisk.SerialNumber = "B" }, adopt: "A"},
		{name: "adopted even where no profile matches", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, with: func(w *server.Desired) { w.Profiles = nil }, adopt: "A"},
		{name: "overwrite does not destroy what is ours", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, with: func(w *server.Desired) { w.Profiles[0].RootDisk.Overwrite = true }, adopt: "A"},
		{name: "our installation, but a newer one is asked for", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, with: func(w *server.Desired) {
			w.Spec.ReinstallAfter, w.Reinstallation = ago(time.Minute), &region.ReinstallationStatus{After: *ago(time.Minute), Accepted: *ago(time.Minute)}
		}, disk: "A"},
		{name: "our installation, a newer one is accepted, and the marker's clock was wrong", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true), func(d *inventory.Disk) {
			d.Marker.Installed = "2037-01-01T00:00:00Z"
		})}, with: func(w *server.Desired) {
			w.Spec.ReinstallAfter, w.Reinstallation = ago(time.Minute), &region.ReinstallationStatus{After: *ago(time.Minute), Accepted: *ago(time.Minute)}
		}, disk: "A"},
		{name: "our installation, a newer one is asked for but was not accepted: guests may be on it", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, with: func(w *server.Desired) { w.Spec.ReinstallAfter = ago(time.Minute) }, adopt: "A"},
		{name: "our installation is newer than asked for", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, with: func(w *server.Desired) { w.Spec.ReinstallAfter = ago(2 * time.Hour) }, adopt: "A"},
		{name: "our installation, asked for in the future", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true))}, with: func(w *server.Desired) { w.Spec.ReinstallAfter = ago(-time.Hour) }, adopt: "A"},
		{name: "cut-off installation of ours is installed again", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, false))}, disk: "A"},
		{name: "marker of another region", disks: []inventory.Disk{disk("sda", "A", marked("other", serverUID, true))}, reason: "DiskNotSelected", parts: []string{"region UID other"}},
		{name: "marker of another server", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, "other", true))}, reason: "DiskNotSelected", parts: []string{"server UID other"}},
		{name: "cut-off installation of another server", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, "other", false))}, reason: "DiskNotSelected"},
		{name: "a marker with empty UIDs is nobody's", disks: []inventory.Disk{disk("sda", "A", marked("", "", true))}, with: func(w *server.Desired) { w.UID, w.RegionUID = "", "" }, reason: "DiskNotSelected"},
		{name: "two complete installations", disks: []inventory.Disk{disk("sda", "A", marked(regionUID, serverUID, true)), disk("sdb", "B", marked(regionUID, serverUID, true))}, reason: "MarkerContradictory", parts: []string{"serial A", "serial B"}},

		{name: "no profiles", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) { w.Profiles = nil }, reason: "ProfileNotMatched"},
		{name: "named profile is missing", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) { w.Spec.Profile = "gpu" }, reason: "ProfileUnknown", parts: []string{`"gpu"`, "all"}},
		{name: "named profile counts, not its match", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) {
			w.Spec.Profile = "gpu"
			w.Profiles = append(w.Profiles, region.Profile{Name: "gpu", Match: region.ProfileMatch{Product: "no"}})
		}, disk: "A"},
		{name: "too little memory", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) { w.Profiles[0].Match.MinMemory = "64Gi" }, reason: "ProfileNotMatched", parts: []string{"memory is 8.6 GB, less than 64Gi"}},
		{name: "too few CPUs", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) { w.Profiles[0].Match.MinCPUs = 64 }, reason: "ProfileNotMatched"},
		{name: "second profile", disks: []inventory.Disk{disk("sda", "A"), disk("sdb", "B")}, with: func(w *server.Desired) {
			w.Profiles = []region.Profile{{Name: "x", Match: region.ProfileMatch{Name: "x*"}}, {Name: "s", Match: region.ProfileMatch{SerialNumbers: []string{"SN1"}}, RootDisk: region.DiskSelector{SerialNumber: "B"}}}
		}, disk: "B"},
		{name: "interface that is not there", disks: []inventory.Disk{disk("sda", "A")}, with: func(w *server.Desired) {
			w.Profiles[0].Network = &region.HostNetwork{Interfaces: []region.Interface{{Name: "lan0", Match: region.InterfaceMatch{PermanentMACAddress: "52:54:00:00:00:09"}}}}
		}, reason: "NetworkNotResolved", parts: []string{"eth0 52:54:00:00:00:01", "matches 0 NICs"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := desired()
			if tt.with != nil {
				tt.with(&w)
			}
			plan, adopted, refused := server.Plan(w, machine(tt.disks...), now)
			switch {
			case plan != nil:
				if plan.Disk.SerialNumber != tt.disk || tt.disk == "" {
					t.Errorf("would install on %q, want %q", plan.Disk.SerialNumber, tt.disk)
				}
				if plan.Overwrite != tt.overwrite {
					t.Errorf("overwrite %v, want %v", plan.Overwrite, tt.overwrite)
				}
			case adopted != nil:
				if adopted.Disk.SerialNumber != tt.adopt || tt.adopt == "" || adopted.Image != "trixie-0" || !adopted.Installed.Equal(now.Add(-time.Hour)) {
					t.Errorf("would adopt %+v, want disk %q", adopted, tt.adopt)
				}
			case refused != nil:
				if refused.Reason != tt.reason {
					t.Errorf("refused: %s: %s, want %q", refused.Reason, refused.Message, tt.reason)
				}
				for _, p := range tt.parts {
					if !strings.Contains(refused.Message, p) {
						t.Errorf("message lacks %q: %s", p, refused.Message)
					}
				}
			default:
				t.Error("no result")
			}
		})
	}
}

func TestResolveNetwork(t *testing.T) {
	nics := machine().NICs
	n, refused := server.ResolveNetwork(nil, nics)
	if refused != nil || len(n.Interfaces) != 1 || n.Interfaces[0].Name != server.DefaultInterface || n.Interfaces[0].MACAddress != "52:54:00:00:00:01" || !n.Interfaces[0].DHCP {
		t.Errorf("default network is %+v, %v", n, refused)
	}
	bond := &region.HostNetwork{
		Interfaces: []region.Interface{{Name: "lan0", Match: region.InterfaceMatch{Boot: true}}, {Name: "lan1", Match: region.InterfaceMatch{PermanentMACAddress: "52:54:00:00:00:02"}}},
		Bonds:      []region.Bond{{Name: "bond0", Interfaces: []string{"lan0", "lan1"}, AddressConfig: region.AddressConfig{DHCP: true}}}}
	n, refused = server.ResolveNetwork(bond, nics)
	if refused != nil || len(n.Bonds) != 1 || n.Bonds[0].Mode != "802.3ad" || n.Bonds[0].XmitHashPolicy != "layer3+4" {
		t.Errorf("bond is %+v, %v", n, refused)
	}
	for name, change := range map[string]func(*region.HostNetwork){
		"two match":      func(h *region.HostNetwork) { h.Interfaces[0].Match = region.InterfaceMatch{} },
		"one NIC twice":  func(h *region.HostNetwork) { h.Interfaces[1].Match = region.InterfaceMatch{Boot: true} },
		"unknown member": func(h *region.HostNetwork) { h.Bonds[0].Interfaces[1] = "lan7" },
	} {
		h := bond.DeepCopy()
		change(h)
		if _, refused := server.ResolveNetwork(h, nics); refused == nil || refused.Reason != "NetworkNotResolved" {
			t.Errorf("%s: refused is %v", name, refused)
		}
	}
}

// A machine with a thousand disks is refused within the bounds of a condition, and what fits is named first.
func TestRefusalsAreBounded(t *testing.T) {
	var disks []inventory.Disk
	for i := range 1000 {
		disks = append(disks, disk(fmt.Sprintf("sd%d", i), fmt.Sprintf("SERIAL%03d-%s", i, strings.Repeat("x", 100)), func(d *inventory.Disk) { d.Type = inventory.DiskHDD }))
	}
	disks[900].Type, disks[901].Type = inventory.DiskNVMe, inventory.DiskNVMe
	w := desired()
	w.Profiles[0].RootDisk.Type = inventory.DiskNVMe
	_, _, refused := server.Plan(w, machine(disks...), now)
	if refused == nil || len(refused.Message) > bounded.MaxMessage {
		t.Fatalf("refusal %+v", refused)
	}
	for _, part := range []string{"2 disks fit", "sd900 serial SERIAL900", "sd901 serial SERIAL901", " more", "name one by serialNumber"} {
		if !strings.Contains(refused.Message, part) {
			t.Errorf("message lacks %q: %s", part, refused.Message)
		}
	}
	w.Profiles = nil
	for i := range 1000 {
		w.Profiles = append(w.Profiles, region.Profile{Name: fmt.Sprintf("profile-%d", i), Match: region.ProfileMatch{Product: strings.Repeat("y", 60)}})
	}
	if _, _, refused := server.Plan(w, machine(disks...), now); refused == nil || len(refused.Message) > bounded.MaxMessage || !strings.Contains(refused.Message, " more); change a profile's match") {
		t.Errorf("refusal %+v", refused)
	}
}
