package inventory_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/machine/inventory"
)

func TestEvaluate(t *testing.T) {
	owner := inventory.Owner{RegionUID: "r", ServerUID: "s"}
	marker := func(region, server string) *inventory.InstallMarker {
		return &inventory.InstallMarker{RegionUID: region, ServerUID: server}
	}
	for name, tc := range map[string]struct {
		disk  inventory.Disk
		owner inventory.Owner
		want  inventory.Verdict
		holds string
	}{
		"blank":                     {inventory.Disk{Blank: true}, owner, inventory.VerdictFree, ""},
		"ours":                      {inventory.Disk{Content: "GPT, ext4", Marker: marker("r", "s")}, owner, inventory.VerdictFree, ""},
		"another server's":          {inventory.Disk{Content: "GPT, ext4", Marker: marker("r", "t")}, owner, inventory.VerdictInstallation, "server UID t in region UID r"},
		"another region's":          {inventory.Disk{Marker: marker("q", "s")}, owner, inventory.VerdictInstallation, "region UID q"},
		"nobody owns empty UIDs":    {inventory.Disk{Marker: marker("", "")}, inventory.Owner{}, inventory.VerdictInstallation, ""},
		"a file system":             {inventory.Disk{Content: "XFS"}, owner, inventory.VerdictData, "holds XFS"},
		"not blank, nothing known":  {inventory.Disk{}, owner, inventory.VerdictData, "holds unknown data"},
		"shared":                    {inventory.Disk{Content: "GPT, VMFS"}, owner, inventory.VerdictNever, "(VMFS)"},
		"shared, with our marker":   {inventory.Disk{Content: "OCFS2", Marker: marker("r", "s")}, owner, inventory.VerdictNever, "(OCFS2)"},
		"sick, though it was ours":  {inventory.Disk{Problem: "no answer", Marker: marker("r", "s")}, owner, inventory.VerdictNever, "no answer"},
		"sick, though it was blank": {inventory.Disk{Problem: "no answer", Blank: true}, owner, inventory.VerdictNever, "no answer"},
	} {
		got := tc.disk.Evaluate(tc.owner)
		if got.Verdict != tc.want || !strings.Contains(got.Holds, tc.holds) {
			t.Errorf("%s: %+v, want %s with %q", name, got, tc.want, tc.holds)
		}
	}
}

// Who reads a list of disks sees which of them are sick.
func TestDiskForPeople(t *testing.T) {
	d := inventory.Disk{Name: "sda", Type: inventory.DiskHDD, Bytes: 512, SerialNumber: "S1", Problem: "it did not answer within 1m0s"}
	if got, want := d.String(), "sda (HDD, 512 bytes, serial S1, sick: it did not answer within 1m0s)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
