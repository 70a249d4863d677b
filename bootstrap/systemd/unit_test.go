package systemd_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/bootstrap/systemd"
)

var update = flag.Bool("update", false, "write golden files")

func TestUnitIsAsReviewed(t *testing.T) {
	const golden = "testdata/regiond.service"
	got := systemd.Unit{Program: "/usr/local/bin/regiond", RegionFile: "/etc/regiond/region.yaml"}.Text()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test -update writes it); got:\n%s\nwant:\n%s", golden, got, want)
	}
}

// TestSystemdAcceptsTheUnit has systemd itself verify every key and value.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "regiond")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, systemd.UnitName)
	text := systemd.Unit{Program: program, RegionFile: `/etc/an odd % "name" $HOME`}.Text()
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), unit) {
		t.Errorf("systemd-analyze (Debian package systemd): %v\n%s", err, out)
	}
}
