package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/machine/enroll"
)

func TestMode(t *testing.T) {
	for line, want := range map[string]string{"": "install", "quiet regiond.mode=boot": "boot", "regiond.mode=boot regiond.mode=install": "install"} {
		if got := mode(strings.Fields(line)); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

func TestReadTicket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ticket.json")
	if _, err := readTicket(path); err == nil || !strings.Contains(err.Error(), "not booted by regiond") {
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
	if got, err := readTicket(path); err != nil || got != want {
		t.Errorf("%+v (%v)", got, err)
	}
}

// messages collects what the kernel would get, one write a message.
type messages []string

func (m *messages) Write(b []byte) (int, error) {
	*m = append(*m, string(b))
	return len(b), nil
}

func TestKernelLog(t *testing.T) {
	var m messages
	log := slog.New(newKernelHandler(&m)).With("disk", "vda")
	log.Info("written", "bytes", 5)
	log.Error("long", "text", strings.Repeat("x", 1000))
	log.Debug("not shown")
	if len(m) != 3 || m[0] != "<6>regiond-init: msg=written disk=vda bytes=5\n" || !strings.HasPrefix(m[1], "<3>regiond-init: msg=long") {
		t.Fatalf("messages %q", m)
	}
	for _, line := range m {
		if len(line) > 976 {
			t.Errorf("message of %d bytes: the kernel would refuse it", len(line))
		}
	}
}
