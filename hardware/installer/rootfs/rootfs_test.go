package rootfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"regiond.dev/regiond/hardware/installer/rootfs"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/inventory"
)

func TestChoose(t *testing.T) {
	a := rootfs.Candidate{Device: "sda3", Disk: "sda", Complete: true, ESP: "ESP-A"}
	b := rootfs.Candidate{Device: "sdb3", Disk: "sdb", Complete: true, ESP: "ESP-B"}
	half := rootfs.Candidate{Device: "sdc3", Disk: "sdc", ESP: "ESP-C", Problem: errors.New("input/output error")}
	for name, tc := range map[string]struct {
		candidates []rootfs.Candidate
		loader     string
		want       string
		err        string
	}{
		"nothing yet":                 {nil, "", "", "no partition of that label yet"},
		"the only one":                {[]rootfs.Candidate{a}, "", "sda3", ""},
		"the loader's disk":           {[]rootfs.Candidate{a, b}, "ESP-B", "sdb3", ""},
		"the loader's disk not there": {[]rootfs.Candidate{a}, "ESP-B", "", "ESP-B"},
		"a cloned disk":               {[]rootfs.Candidate{a, {Device: "sdd3", ESP: "ESP-A"}}, "ESP-A", "", "one is a copy"},
		"two installations, BIOS":     {[]rootfs.Candidate{a, b}, "", "", "sda3, sdb3"},
		"one whole of two":            {[]rootfs.Candidate{half, a}, "", "sda3", ""},
		"only half an installation":   {[]rootfs.Candidate{half}, "", "", "sdc3 (input/output error)"},
	} {
		got, err := rootfs.Choose(tc.candidates, tc.loader)
		if got.Device != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v", name, got.Device, err)
		}
	}
}

func TestParseArguments(t *testing.T) {
	got, err := rootfs.ParseArguments(strings.Fields("BOOT_IMAGE=x root=PARTLABEL=root-a ro regiond.mode=boot rw ro init=/bin/sh regiond.esp=01234567-89ab-cdef-8123-456789abcdef"))
	if want := (rootfs.Arguments{Label: "root-a", ReadOnly: true, Init: "/bin/sh", ESP: "01234567-89AB-CDEF-8123-456789ABCDEF"}); err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if got, err := rootfs.ParseArguments([]string{"root=PARTLABEL=root-b"}); err != nil || got.ReadOnly || got.Init != "/sbin/init" {
		t.Errorf("defaults: %+v (%v)", got, err)
	}
	for _, bad := range []string{"root=/dev/sda3", "root=PARTLABEL=", "quiet"} {
		if _, err := rootfs.ParseArguments([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// newDisk makes a file with our partitions and a marker, and returns the GUID of its ESP.
func newDisk(t *testing.T, path string, complete bool) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 16 << 20
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	m := &diskimage.Manifest{Partitions: []diskimage.Partition{{Label: "esp", Size: 1 << 20}, {Label: "root-a", Size: 1 << 20}, {Label: "data", Size: 1 << 20}}}
	parts, err := diskimage.Layout(m, size)
	if err != nil {
		t.Fatal(err)
	}
	guids, err := diskimage.WriteTable(f, size, parts, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := inventory.EncodeMarker(inventory.InstallMarker{RegionUID: "r", ServerUID: "s", Complete: complete})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, inventory.MarkerOffset); err != nil {
		t.Fatal(err)
	}
	return guids["esp"]
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) (*os.File, error) { return os.Open(filepath.Join(dir, name)) }
	esp := newDisk(t, filepath.Join(dir, "vdb"), true)
	newDisk(t, filepath.Join(dir, "vda"), false)
	uevent := func(partition, label string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("MAJOR=254\nDEVNAME=" + partition + "\nDEVTYPE=partition\nPARTN=2\nPARTNAME=" + label + "\n")}
	}
	sys := fstest.MapFS{
		"block/vda/vda2/uevent": uevent("vda2", "root-a"), "block/vdb/vdb1/uevent": uevent("vdb1", "esp"),
		"block/vdb/vdb2/uevent": uevent("vdb2", "root-a"), "block/vdc/vdc1/uevent": uevent("vdc1", "root-a"), // vdc cannot be read
	}
	for _, loader := range []string{esp, ""} {
		got, err := rootfs.Find(t.Context(), sys, open, "root-a", loader)
		if err != nil || got.Device != "vdb2" || got.Disk != "vdb" {
			t.Errorf("loader %q: %+v (%v)", loader, got, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := rootfs.Find(ctx, sys, open, "root-b", ""); !errors.Is(err, rootfs.ErrNotYet) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("missing label: %v", err)
	}
}
