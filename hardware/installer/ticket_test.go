package installer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/hardware/installer"
	"regiond.dev/regiond/machine/enroll"
)

func TestReadTicket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ticket.json")
	if _, err := installer.ReadTicket(path); err == nil || !strings.Contains(err.Error(), "not booted by regiond") {
		t.Errorf("no ticket: %v", err)
	}
	want := enroll.Ticket{URL: "https://10.99.0.1:7443", Token: "t", MACAddress: "52:54:00:99:00:01"}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := installer.ReadTicket(path); err != nil || got != want {
		t.Errorf("%+v (%v)", got, err)
	}
}
